//! A decision over several demands, with receipts. A reservation is one of a single demand.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use limiter_core::{Cost, Timestamp};

use super::request::{Operation, Request};
use crate::{
    client::{ScriptCall, faults::Outcome},
    context::Context,
    handle::Handle,
    local::denials::{Denial, Denials, Ticket},
    scripts::{Ask, CheckReply, Demand, ListReply, ListRequest, Plan},
};

/// Charges all demands or none.
pub(crate) struct Decide {
    pub(crate) parts: Vec<Part>,
    pub(crate) ask: Ask,
}

/// A demand on one limiter.
#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) context: Arc<Context>,
    pub(crate) handle: Arc<Handle>,
    /// The key of the subject's hash.
    pub(crate) key: Bytes,
    pub(crate) cost: Cost,
    pub(crate) only_asks: bool,
    pub(crate) ticket: Ticket,
    /// For how long its denial is cached at most.
    pub(crate) denied_for: Duration,
}

impl Part {
    /// Returns a demand that is charged.
    pub(crate) fn new(
        context: &Arc<Context>,
        handle: &Arc<Handle>,
        key: Bytes,
        cost: Cost,
    ) -> Self {
        Self {
            ticket: context.denials.ticket(&key),
            context: Arc::clone(context),
            handle: Arc::clone(handle),
            key,
            cost,
            only_asks: false,
            denied_for: Denials::MAX_AGE,
        }
    }

    fn demand(&self) -> Demand<'_> {
        Demand { plan: &self.handle.plan, cost: self.cost, only_asks: self.only_asks }
    }
}

impl Decide {
    fn demands(&self) -> Vec<Demand<'_>> {
        self.parts.iter().map(Part::demand).collect()
    }

    /// Returns whether each wait is that of its demand alone. The longest may be paced by another demand.
    fn are_waits_exact(&self) -> bool {
        self.parts.len() == 1 || self.parts.iter().all(|part| part.handle.plan.has_own_script())
    }
}

impl Operation for Decide {
    type Output = Vec<CheckReply>;

    const DECIDES: bool = true;

    fn call(first: &Request<Self>, _: &[Request<Self>]) -> ScriptCall {
        let Request { operation, handle, .. } = first;
        let request = (operation.demands(), ListRequest::Reserve(operation.ask));
        handle.plan.list_call([request].into_iter())
    }

    fn add_keys(request: &Request<Self>, all: &mut Vec<Bytes>) {
        for Part { handle, key, .. } in &request.operation.parts {
            handle.plan.add_keys(key, all);
        }
    }

    fn read(&self, _: &Plan, numbers: &[i64]) -> Option<Vec<CheckReply>> {
        let request = ListRequest::Reserve(self.ask);
        ListReply::read(&self.demands(), request, numbers).map(|ListReply(replies)| replies)
    }

    fn note(
        request: &Request<Self>,
        context: &Context,
        sent: Timestamp,
        outcome: &mut Outcome<Vec<CheckReply>>,
    ) {
        let Ok(replies) = outcome else { return };
        let (received, ask) = (context.now(), request.operation.ask);
        let are_exact = request.operation.are_waits_exact();
        for (part, reply) in request.operation.parts.iter().zip(replies) {
            let Part { context, handle, key, cost, ticket, denied_for, .. } = part;
            let CheckReply { decision, charged, .. } = reply;
            // A charge in any case decides nothing.
            if ask != Ask::InAnyCase
                && !request.is_late
                && (charged.is_some() || !decision.is_admitted())
            {
                context.events.tally.decided(decision);
            }
            if !decision.is_admitted() && are_exact {
                let cost = ask.refused_cost(*cost);
                let denial = Denial { cost, decision: *decision, sent, received };
                let of = (key, &handle.policy);
                context.denials.insert_within(*denied_for, *ticket, of, denial);
            }
            if charged.is_some() {
                context.denials.charged(*ticket, key, received);
            }
        }
    }
}
