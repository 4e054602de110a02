//! The operations of a limiter: what each asks of the store, and what it notes of the answer.

use std::sync::{Arc, Mutex, PoisonError};

use limiter_core::{Cost, LimiterId, Receipt, Timestamp, Usage};

use super::request::{Operation, Request};
use crate::{
    client::{
        ScriptCall,
        faults::{CallError, Outcome, reported},
    },
    context::Context,
    events::EventKind,
    handle::Handle,
    local::denials::{Denial, Ticket},
    scripts::{Ask, Charge, Charged, CheckReply, Plan, Route},
};

/// Charges a cost now, without a receipt. Or leases permits, if some are wanted.
pub(crate) struct Check {
    pub(crate) charge: Charge,
    pub(crate) ticket: Ticket,
}

impl Operation for Check {
    type Output = CheckReply;

    const DECIDES: bool = true;

    fn batch(requests: &[Request<Self>]) -> Option<ScriptCall> {
        let checks = requests.iter().map(|it| (&it.handle.plan, it.operation.charge));
        Some(requests.first()?.handle.plan.checks(checks))
    }

    fn has_lease_keys(&self) -> bool {
        self.charge.route == Route::Lease
    }

    fn may_be_undecided(&self) -> bool {
        self.charge.route != Route::Policy
    }

    fn is_undecided(&mut self, context: &Context) {
        self.charge.route = Route::Policy;
        context.detours.add(self.ticket.hash(), context.now());
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
        let Ok(CheckReply { decision, charged }) = outcome else { return };
        let (decision, Check { charge, ticket }) = (*decision, &request.operation);
        // What is leased is counted when it is spent.
        if charge.wanted == 0 {
            context.events.tally.decided(&decision);
        }
        cache(
            request,
            context,
            *ticket,
            Denial { cost: charge.cost, decision, sent, received: context.now() },
        );
        let permits = charged.as_ref().and_then(|charged| Cost::new(charged.permits()).ok());
        let cost = permits.unwrap_or(charge.cost);
        // A caller whose time is over has asked the local fallback itself.
        let local = request.handle.local.as_ref().filter(|_| !request.caller.is_closed());
        if let Some(local) = local.filter(|_| decision.is_admitted()) {
            drop(local.follow(&request.key, cost));
        }
    }
}

/// Charges a cost or a part of it, with a receipt.
pub(crate) struct Reserve {
    pub(crate) cost: Cost,
    pub(crate) ask: Ask,
    pub(crate) ticket: Ticket,
}

/// What the store replied to a reservation, and the local fallback's receipt for the same charge.
pub(crate) type Reserved = (CheckReply, Option<Receipt>);

impl Operation for Reserve {
    type Output = Reserved;

    const DECIDES: bool = true;

    fn batch(requests: &[Request<Self>]) -> Option<ScriptCall> {
        let demands = requests.iter().map(|it| {
            let Self { cost, ask, .. } = it.operation;
            it.handle.plan.reservation(cost, ask)
        });
        Some(requests.first()?.handle.plan.demand(demands))
    }

    fn read(&self, plan: &Plan, numbers: &[i64]) -> Option<Reserved> {
        Some((plan.reserved(numbers, self.cost, self.ask)?, None))
    }

    fn note(
        request: &Request<Self>,
        context: &Context,
        sent: Timestamp,
        outcome: &mut Outcome<Reserved>,
    ) {
        let Ok((taken, receipt)) = outcome else { return };
        let Reserve { cost, ask, ticket } = request.operation;
        // A charge in any case decides nothing.
        if ask != Ask::InAnyCase {
            context.events.tally.decided(&taken.decision);
        }
        let refused = if ask == Ask::UpTo { Cost::ONE } else { cost };
        let (decision, received) = (taken.decision, context.now());
        cache(request, context, ticket, Denial { cost: refused, decision, sent, received });
        let permits = taken.charged.as_ref().map(Charged::permits).map(Cost::new);
        if let (Some(local), Some(Ok(permits))) = (&request.handle.local, permits) {
            *receipt = match ask {
                Ask::InAnyCase => local.reserve(&request.key, permits, ask).into_receipt(),
                Ask::Within(_) | Ask::UpTo => local.follow(&request.key, permits),
            };
        }
    }
}

/// Caches a decision of the store if it is a denial.
fn cache<O: Operation>(request: &Request<O>, context: &Context, ticket: Ticket, denial: Denial) {
    if !denial.decision.is_admitted() {
        context.denials.insert(ticket, &request.key, &request.handle.policy, denial);
    }
}

/// Reads how far the permits are used up.
pub(crate) struct Peek;

impl Operation for Peek {
    type Output = Usage;

    fn batch(requests: &[Request<Self>]) -> Option<ScriptCall> {
        let demands = requests.iter().map(|it| it.handle.plan.peek());
        Some(requests.first()?.handle.plan.demand(demands))
    }

    fn read(&self, plan: &Plan, numbers: &[i64]) -> Option<Usage> {
        plan.peeked(numbers)
    }
}

/// The token of a receipt: what was charged to which key.
pub(crate) struct Token {
    /// The limiter that issued the receipt.
    pub(crate) limiter: LimiterId,
    pub(crate) key: Vec<u8>,
    pub(crate) charged: Charged,
    /// The handle that charged, because a charge's marks are in units of its quota.
    pub(crate) handle: Arc<Handle>,
    /// The local fallback's receipt for the same charge.
    pub(crate) local: Mutex<Option<Receipt>>,
}

/// Gives back permits of a charge.
pub(crate) struct Refund {
    pub(crate) token: Arc<Token>,
    pub(crate) permits: u64,
    pub(crate) forgotten: Forgotten,
}

impl Operation for Refund {
    type Output = u64;

    const OUTLIVES_CALLER: bool = true;

    fn batch(requests: &[Request<Self>]) -> Option<ScriptCall> {
        let [Request { operation, handle, .. }] = requests else { return None };
        Some(handle.plan.refund(&operation.token.charged, operation.permits))
    }

    fn has_lease_keys(&self) -> bool {
        true
    }

    fn read(&self, plan: &Plan, numbers: &[i64]) -> Option<u64> {
        plan.refunded(numbers)
    }

    fn note(request: &Request<Self>, _: &Context, _: Timestamp, outcome: &mut Outcome<u64>) {
        let Refund { token, permits, forgotten } = &request.operation;
        forgotten.now();
        let local = outcome.is_ok().then(|| token.local.lock());
        let local = local.and_then(|local| local.unwrap_or_else(PoisonError::into_inner).take());
        if let (Some(local), Some(receipt)) = (&request.handle.local, local) {
            let kept = receipt.permits().saturating_sub(*permits);
            local.refund(receipt.keep(kept));
        }
    }

    fn failure(error: &Arc<CallError>) -> Option<EventKind> {
        Some(EventKind::RefundFailed(reported(error)))
    }
}

/// Makes a subject fresh.
pub(crate) struct Reset {
    pub(crate) forgotten: Forgotten,
}

impl Operation for Reset {
    type Output = ();

    const OUTLIVES_CALLER: bool = true;

    fn batch(requests: &[Request<Self>]) -> Option<ScriptCall> {
        let [request] = requests else { return None };
        Some(request.handle.plan.reset())
    }

    fn has_lease_keys(&self) -> bool {
        true
    }

    fn read(&self, _: &Plan, numbers: &[i64]) -> Option<()> {
        numbers.first().map(drop)
    }

    fn note(request: &Request<Self>, _: &Context, _: Timestamp, _: &mut Outcome<()>) {
        request.operation.forgotten.now();
    }
}

/// Removes the cached denials of a key when a refund or a reset has ended, whatever its outcome:
/// permits may have come back.
pub(crate) struct Forgotten {
    context: Arc<Context>,
    key: Vec<u8>,
}

impl Forgotten {
    pub(crate) fn of(context: &Arc<Context>, key: &[u8]) -> Self {
        Self { context: Arc::clone(context), key: key.to_vec() }
    }

    fn now(&self) {
        self.context.denials.forget(&self.key);
    }
}

/// If the operation is dropped with its runtime.
impl Drop for Forgotten {
    fn drop(&mut self) {
        self.now();
    }
}
