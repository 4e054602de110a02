//! A check: a charge now, without a receipt.

use std::sync::Arc;

use bytes::Bytes;
use limiter_core::{Cost, Timestamp};

use super::operation::{Batched, Operation};
use crate::{
    client::{ScriptCall, ScriptReply, faults::Outcome},
    context::Context,
    events::Events,
    handle::Handle,
    local::denials::{Denial, Ticket},
    scripts::{Charge, CheckReply, Route},
};

/// Charges a cost now, without a receipt. Or leases permits, if some are wanted.
pub(crate) struct Check {
    context: Arc<Context>,
    handle: Arc<Handle>,
    key: Bytes,
    charge: Charge,
    ticket: Ticket,
}

impl Check {
    /// Returns a check, which leases permits if more than the cost are `wanted`.
    pub(crate) fn new(
        context: &Arc<Context>,
        handle: &Arc<Handle>,
        key: Bytes,
        (cost, wanted): (Cost, u64),
    ) -> Self {
        Self {
            ticket: context.denials.ticket(&key),
            charge: Charge { cost, wanted, route: handle.plan.route(wanted) },
            context: Arc::clone(context),
            handle: Arc::clone(handle),
            key,
        }
    }
}

impl Operation for Check {
    type Output = CheckReply;

    fn key(&self) -> &Bytes {
        &self.key
    }

    fn events(&self) -> (&Arc<Events>, &str) {
        (&self.context.events, self.handle.policy.name())
    }

    fn begin(&self) -> ScriptCall {
        self.charge.route.begin()
    }

    fn add(&self, call: &mut ScriptCall) {
        let plan = &self.handle.plan;
        plan.add_keys(&self.key, &mut call.keys);
        plan.add_check(self.charge, &mut call.arguments);
    }

    fn is_of_caller(&self) -> bool {
        self.charge.wanted == 0
    }

    fn read(&self, reply: &ScriptReply, _: Timestamp) -> Option<CheckReply> {
        self.handle.plan.checked(&reply.integers()?, self.charge)
    }

    fn note(&self, outcome: &Outcome<CheckReply>, sent: Timestamp, is_late: bool) {
        let Ok(CheckReply { decision, .. }) = outcome else { return };
        let Self { context, handle, key, charge, ticket } = self;
        // What is leased is counted when it is spent, and what is late as undetermined.
        if self.is_of_caller() && !is_late {
            context.events.tally.decided(decision);
        }
        let received = context.now();
        if decision.is_admitted() {
            context.denials.charged(*ticket, key, received);
        } else {
            let denial = Denial { cost: charge.cost, decision: *decision, sent, received };
            context.denials.insert(*ticket, key, &handle.policy, denial);
        }
    }
}

impl Batched for Check {
    type Kind = Route;

    fn kind(&self) -> Route {
        self.charge.route
    }

    fn max_batch(&self) -> usize {
        self.handle.plan.max_batch
    }
}
