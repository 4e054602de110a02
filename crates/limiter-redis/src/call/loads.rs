//! Scripts that servers do not have: of the callers that find that out, one sends the script.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// The scripts that are being sent.
#[derive(Default)]
pub(crate) struct Loads(Mutex<HashMap<Script, Arc<AsyncMutex<()>>>>);

/// A script on a server, by the server's number and the script's digest.
type Script = (Option<usize>, Bytes);

/// What a caller does whose server does not have its script.
pub(crate) enum Load {
    /// It sends the script. Others wait until this is dropped.
    Send(Loading),
    /// It calls the script again, because another caller has sent it meanwhile.
    Again,
}

/// A script that is being sent.
pub(crate) struct Loading {
    loads: Arc<Loads>,
    script: Script,
    _lock: OwnedMutexGuard<()>,
}

impl Loads {
    /// Returns what the caller does, at once or after another one has sent the script.
    pub(super) async fn load(self: &Arc<Self>, server: Option<usize>, digest: &Bytes) -> Load {
        let script = (server, digest.clone());
        let lock = {
            // No operation under the lock can leave it half done.
            let mut loads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(loads.entry(script.clone()).or_default())
        };
        match Arc::clone(&lock).try_lock_owned() {
            Ok(_lock) => Load::Send(Loading { loads: Arc::clone(self), script, _lock }),
            Err(_) => {
                drop(lock.lock().await);
                Load::Again
            }
        }
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        let mut loads = self.loads.0.lock().unwrap_or_else(PoisonError::into_inner);
        loads.remove(&self.script);
    }
}
