//! The deletion of a subject's states.

use std::sync::Arc;

use bytes::Bytes;
use limiter_core::Timestamp;

use super::operation::Operation;
use crate::{
    client::{ScriptCall, ScriptReply},
    events::Events,
    scripts::Scripts,
};

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
