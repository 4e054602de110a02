//! A decision over several demands, as one request to the store.

use std::sync::Arc;

use limiter_core::{Cost, Receipt, Timestamp};

use super::request::{Operation, Request};
use crate::{
    client::{ScriptCall, faults::Outcome},
    context::Context,
    handle::Handle,
    local::denials::{Denial, Ticket},
    scripts::{CheckReply, JointDemand, JointReply, Plan, joint_call, joint_reply},
};

/// Charges all demands or none.
pub(crate) struct Joint(pub(crate) Vec<Part>);

/// A demand on one limiter.
pub(crate) struct Part {
    pub(crate) context: Arc<Context>,
    pub(crate) handle: Arc<Handle>,
    /// The key of the policy's first limit.
    pub(crate) key: Vec<u8>,
    pub(crate) cost: Cost,
    pub(crate) only_asks: bool,
    pub(crate) ticket: Ticket,
}

/// What the store replied to a list, and the local fallbacks' receipts for the same charges.
pub(crate) struct Decided {
    pub(crate) parts: Vec<(CheckReply, Option<Receipt>)>,
    longest: Option<usize>,
}

impl Part {
    fn demand(&self) -> JointDemand<'_> {
        JointDemand { plan: &self.handle.plan, cost: self.cost, only_asks: self.only_asks }
    }
}

impl Joint {
    fn demands(&self) -> Vec<JointDemand<'_>> {
        self.0.iter().map(Part::demand).collect()
    }
}

impl Operation for Joint {
    type Output = Decided;

    const DECIDES: bool = true;

    fn batch(requests: &[Request<Self>]) -> Option<ScriptCall> {
        let [request] = requests else { return None };
        joint_call(&request.operation.demands())
    }

    fn own_keys(&self) -> Option<Vec<Vec<u8>>> {
        let keys = |part: &Part| part.context.keys.all(&part.key);
        Some(self.0.iter().flat_map(keys).collect())
    }

    fn read(&self, _: &Plan, numbers: &[i64]) -> Option<Decided> {
        let JointReply { replies, longest } = joint_reply(&self.demands(), numbers)?;
        let parts = replies.into_iter().map(|reply| (reply, None)).collect();
        Some(Decided { parts, longest })
    }

    fn note(
        request: &Request<Self>,
        context: &Context,
        sent: Timestamp,
        outcome: &mut Outcome<Decided>,
    ) {
        let Ok(Decided { parts, longest }) = outcome else { return };
        let received = context.now();
        // The wait of the longest demand is its own, unless another one is paced.
        let is_exact = request.operation.0.iter().all(|part| part.handle.plan.has_own_script());
        for (index, (part, (reply, receipt))) in request.operation.0.iter().zip(parts).enumerate() {
            let Part { context, handle, key, cost, ticket, .. } = part;
            let decision = reply.decision;
            if reply.charged.is_some() || !decision.is_admitted() {
                context.events.tally.decided(&decision);
            }
            if *longest == Some(index) && is_exact {
                let denial = Denial { cost: *cost, decision, sent, received };
                context.denials.insert(*ticket, key, &handle.policy, denial);
            }
            let local = handle.local.as_ref().filter(|_| reply.charged.is_some());
            *receipt = local.and_then(|local| local.follow(key, *cost));
        }
    }
}
