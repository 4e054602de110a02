//! Refunds of charges, and resets of subjects.

use std::sync::Arc;

use bytes::Bytes;
use limiter_core::{LimiterId, Timestamp};

use super::{operation::Operation, reply::Charged};
use crate::{
    client::{
        ScriptCall, ScriptReply,
        faults::{CallError, reported},
    },
    context::Context,
    events::{EventKind, Events},
    scripts::{Plan, Scripts, exact, number},
};

/// The token of a receipt: what was charged to which key.
pub(crate) struct Token {
    /// The limiter that issued the receipt.
    pub(crate) limiter: LimiterId,
    pub(crate) key: Bytes,
    pub(crate) charged: Charged,
    /// Under which it was charged, because a charge's marks are in units of its quota.
    pub(crate) plan: Arc<Plan>,
}

/// Gives back permits of a charge. The key's cached denials are removed when it has ended, whatever its outcome, because
/// permits may have come back.
pub(crate) struct Refund {
    pub(crate) context: Arc<Context>,
    pub(crate) token: Arc<Token>,
    pub(crate) permits: u64,
}

impl Operation for Refund {
    type Output = u64;

    const OUTLIVES_CALLER: bool = true;

    fn key(&self) -> &Bytes {
        &self.token.key
    }

    fn events(&self) -> (&Arc<Events>, &str) {
        (&self.context.events, self.token.plan.policy.name())
    }

    fn begin(&self) -> ScriptCall {
        ScriptCall::of(&Scripts::shared().refund, Vec::new())
    }

    fn add(&self, call: &mut ScriptCall) {
        let Token { key, charged, plan, .. } = &*self.token;
        plan.add_keys(key, &mut call.keys);
        charged.add_refund(plan, self.permits, &mut call.arguments);
    }

    fn read(&self, reply: &ScriptReply, _: Timestamp) -> Option<u64> {
        let &[permits] = &*reply.integers()? else { return None };
        u64::try_from(permits).ok()
    }

    fn failure(error: &Arc<CallError>) -> Option<EventKind> {
        Some(EventKind::RefundFailed(reported(error)))
    }
}

impl Drop for Refund {
    fn drop(&mut self) {
        self.context.denials.forget(&self.token.key);
    }
}

impl Charged {
    /// Adds the arguments of the call that gives back permits of it.
    pub(crate) fn add_refund(&self, plan: &Plan, permits: u64, arguments: &mut Vec<Bytes>) {
        let Self { permits: cost, taken_at, delay, marks, length } = self;
        let delay = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        let at = taken_at.saturating_add_unsigned(delay);
        let [permits, cost, length] = [permits.min(*cost), *cost, *length].map(exact);
        arguments.extend([permits, cost, *taken_at, at, length].map(number));
        for (limit, mark) in plan.limits.iter().zip(marks) {
            let span = limit.gcra.map_or(0, |gcra| exact(gcra.span));
            arguments.extend(limit.words.iter().cloned().chain([number(*mark), number(span)]));
        }
    }
}

/// Makes a subject fresh. When it has ended, whatever its outcome, also if its caller has left or it was not sent, `ends`
/// forgets what this process knows of the subject.
pub(crate) struct Reset<F: FnMut() + Send + 'static> {
    pub(crate) events: Arc<Events>,
    /// The key by which a cluster routes it.
    pub(crate) key: Bytes,
    /// The keys that are deleted.
    pub(crate) keys: Vec<Bytes>,
    pub(crate) ends: F,
}

impl<F: FnMut() + Send + 'static> Operation for Reset<F> {
    type Output = ();

    const OUTLIVES_CALLER: bool = true;

    fn key(&self) -> &Bytes {
        &self.key
    }

    fn events(&self) -> (&Arc<Events>, &str) {
        (&self.events, self.events.name())
    }

    fn begin(&self) -> ScriptCall {
        ScriptCall::of(&Scripts::shared().reset, Vec::new())
    }

    fn add(&self, call: &mut ScriptCall) {
        call.keys.extend(self.keys.iter().cloned());
    }

    fn read(&self, reply: &ScriptReply, _: Timestamp) -> Option<()> {
        reply.integers()?.first().map(drop)
    }
}

impl<F: FnMut() + Send + 'static> Drop for Reset<F> {
    fn drop(&mut self) {
        (self.ends)();
    }
}
