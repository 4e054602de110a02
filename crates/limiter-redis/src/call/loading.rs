//! Gives a server all scripts once it did not have one of them.

use std::{
    sync::{
        Arc,
        atomic::{
            AtomicBool,
            Ordering::{AcqRel, Release},
        },
    },
    time::Duration,
};

use bytes::Bytes;

use crate::{
    client::{ScriptCall, ScriptClient},
    scripts::Scripts,
};

/// Loads scripts in a task, one task at a time.
///
/// A server that was restarted has none of them. The call that found that has sent its own script; the others are
/// loaded beside it, so that no later call waits for that.
#[derive(Debug, Default)]
pub(crate) struct Loading(Arc<AtomicBool>);

/// The only task. When it is dropped, another one may start.
struct Turn(Arc<AtomicBool>);

impl Loading {
    /// Starts to load all scripts but that of `sent`, unless scripts are being loaded.
    ///
    /// The first failure ends it: the user may not be allowed to load scripts, and needs not.
    pub(crate) fn start<C: ScriptClient>(
        &self,
        client: &C,
        scripts: &Arc<Scripts>,
        (sent, key): (&ScriptCall, &Bytes),
        within: Duration,
    ) {
        if self.0.swap(true, AcqRel) {
            return;
        }
        let turn = Turn(Arc::clone(&self.0));
        let others = scripts.all().into_iter().filter(|it| it.digest != sent.script.digest);
        let calls: Vec<_> = others.map(|script| ScriptCall::load(script, key)).collect();
        let client = client.clone();
        client.clone().spawn(async move {
            for call in &calls {
                if client.run(call, within).await.is_err() {
                    break;
                }
            }
            drop(turn);
        });
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.store(false, Release);
    }
}
