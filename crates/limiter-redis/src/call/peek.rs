//! A peek: how far the permits of a subject are used up.

use std::sync::Arc;

use bytes::Bytes;
use limiter_core::{Cost, Timestamp, Usage};

use super::operation::Operation;
use crate::{
    client::{ScriptCall, ScriptReply},
    context::Context,
    events::Events,
    handle::Handle,
    scripts::{Demand, ListRequest, Route},
};

/// Reads how far the permits are used up.
pub(crate) struct Peek {
    pub(crate) context: Arc<Context>,
    pub(crate) handle: Arc<Handle>,
    pub(crate) key: Bytes,
}

impl Operation for Peek {
    type Output = Usage;

    fn key(&self) -> &Bytes {
        &self.key
    }

    fn events(&self) -> (&Arc<Events>, &str) {
        (&self.context.events, self.handle.policy.name())
    }

    fn begin(&self) -> ScriptCall {
        Route::List.begin()
    }

    fn add(&self, call: &mut ScriptCall) {
        let plan = &self.handle.plan;
        plan.add_keys(&self.key, &mut call.keys);
        ListRequest::Peek.add(&[Demand::charge(plan, Cost::ONE)], &mut call.arguments);
    }

    fn read(&self, reply: &ScriptReply, _: Timestamp) -> Option<Usage> {
        self.handle.plan.peeked(&reply.integers()?)
    }
}
