//! A check: a charge now, without a receipt.

use limiter_core::Timestamp;

use super::request::{Operation, Request};
use crate::{
    client::{ScriptCall, faults::Outcome},
    context::Context,
    local::denials::{Denial, Ticket},
    scripts::{Charge, CheckReply, Plan},
};

/// Charges a cost now, without a receipt. Or leases permits, if some are wanted.
pub(crate) struct Check {
    pub(crate) charge: Charge,
    pub(crate) ticket: Ticket,
}

impl Operation for Check {
    type Output = CheckReply;

    const DECIDES: bool = true;

    fn call(first: &Request<Self>, all: &[Request<Self>]) -> ScriptCall {
        let checks = all.iter().map(|it| (&it.handle.plan, it.operation.charge));
        first.handle.plan.checks(first.operation.charge.route, checks)
    }

    fn is_of_caller(&self) -> bool {
        self.charge.wanted == 0
    }

    fn read(&self, plan: &Plan, numbers: &[i64]) -> Option<CheckReply> {
        plan.checked(numbers, self.charge)
    }

    fn note(
        request: &Request<Self>,
        context: &Context,
        sent: Timestamp,
        outcome: &mut Outcome<CheckReply>,
    ) {
        let Ok(CheckReply { decision, .. }) = outcome else { return };
        let Request { operation: Self { charge, ticket }, key, handle, .. } = request;
        // What is leased is counted when it is spent, and what is late as undetermined.
        if charge.wanted == 0 && !request.is_late {
            context.events.tally.decided(decision);
        }
        if !decision.is_admitted() {
            let (decision, received) = (*decision, context.now());
            let denial = Denial { cost: charge.cost, decision, sent, received };
            context.denials.insert(*ticket, key, &handle.policy, denial);
        } else {
            context.denials.charged(*ticket, key, context.now());
        }
    }
}
