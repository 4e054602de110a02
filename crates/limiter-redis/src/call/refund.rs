//! A refund of a charge.

use std::sync::Arc;

use bytes::Bytes;
use limiter_core::{LimiterId, Timestamp};

use super::operation::Operation;
use crate::{
    client::{
        ScriptCall, ScriptReply,
        faults::{CallError, reported},
    },
    context::Context,
    events::{EventKind, Events},
    handle::Handle,
    scripts::{Charged, Scripts},
};

/// The token of a receipt: what was charged to which key.
pub(crate) struct Token {
    /// The limiter that issued the receipt.
    pub(crate) limiter: LimiterId,
    pub(crate) key: Bytes,
    pub(crate) charged: Charged,
    /// The handle that charged, because a charge's marks are in units of its quota.
    pub(crate) handle: Arc<Handle>,
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
        (&self.context.events, self.token.handle.policy.name())
    }

    fn begin(&self) -> ScriptCall {
        ScriptCall::of(&Scripts::shared().refund, Vec::new())
    }

    fn add(&self, call: &mut ScriptCall) {
        let Token { key, charged, handle, .. } = &*self.token;
        handle.plan.add_keys(key, &mut call.keys);
        handle.plan.add_refund(charged, self.permits, &mut call.arguments);
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
