//! A decision over several demands, with receipts. A reservation is one of a single demand.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use limiter_core::{Cost, Timestamp};

use super::operation::Operation;
use crate::{
    client::{ScriptCall, ScriptReply, faults::Outcome},
    context::Context,
    events::Events,
    handle::Handle,
    local::denials::{Denial, Denials, Ticket},
    scripts::{Ask, CheckReply, Demand, ListReply, ListRequest, Route},
};

/// Charges all demands or none.
pub(crate) struct Decide {
    pub(crate) first: Part,
    /// All demands, with the first.
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
        self.parts.len() == 1 || self.parts.iter().all(|part| part.handle.plan.own.is_some())
    }
}

impl Operation for Decide {
    type Output = Vec<CheckReply>;

    fn key(&self) -> &Bytes {
        &self.first.key
    }

    fn events(&self) -> (&Arc<Events>, &str) {
        (&self.first.context.events, self.first.handle.policy.name())
    }

    fn begin(&self) -> ScriptCall {
        Route::List.begin()
    }

    fn add(&self, call: &mut ScriptCall) {
        for Part { handle, key, .. } in &self.parts {
            handle.plan.add_keys(key, &mut call.keys);
        }
        ListRequest::Reserve(self.ask).add(&self.demands(), &mut call.arguments);
    }

    fn read(&self, reply: &ScriptReply, _: Timestamp) -> Option<Vec<CheckReply>> {
        let (request, numbers) = (ListRequest::Reserve(self.ask), reply.integers()?);
        ListReply::read(&self.demands(), request, &numbers).map(|ListReply(replies)| replies)
    }

    fn note(&self, outcome: &Outcome<Vec<CheckReply>>, sent: Timestamp, is_late: bool) {
        let Ok(replies) = outcome else { return };
        let Self { parts, ask, .. } = self;
        let are_exact = self.are_waits_exact();
        for (part, reply) in parts.iter().zip(replies) {
            let Part { context, handle, key, cost, ticket, denied_for, .. } = part;
            let CheckReply { decision, charged, .. } = reply;
            let received = context.now();
            // A charge in any case decides nothing.
            if *ask != Ask::InAnyCase && !is_late && (charged.is_some() || !decision.is_admitted())
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
