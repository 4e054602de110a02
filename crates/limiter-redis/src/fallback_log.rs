//! One log line for each cause by which checks are decided without the store, and one when the store decides
//! again.

use std::{
    collections::HashMap,
    fmt::Display,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Instant,
};

use limiter_core::Error;

use crate::{
    call::faults::{CallError, Fault},
    damper::Damper,
    events::FallbackKind,
};

/// Logs why and how checks are decided without the store, at WARN, and when that ends, at INFO.
#[derive(Default)]
pub(crate) struct FallbackLog {
    failing: AtomicBool,
    dampers: Mutex<HashMap<Cause, Damper>>,
}

/// Why the store did not decide. Each is logged by itself.
#[derive(PartialEq, Eq, Hash)]
struct Cause {
    /// The node of the cluster.
    node: Option<Arc<str>>,
    /// `None` if the call was not begun.
    fault: Option<Fault>,
    /// The first word of the server's error reply, such as `OOM`.
    word: String,
}

/// From so many causes on, the server's words no longer separate them, so that no server can fill the memory.
const MAX_CAUSES: usize = 256;

impl FallbackLog {
    /// Notes that a check under `policy` was decided without the store.
    pub(crate) fn begins(
        &self,
        kind: FallbackKind,
        policy: &str,
        node: Option<Arc<str>>,
        error: &Error,
    ) {
        let call = CallError::of(error);
        let word = call.map_or("", CallError::word).to_owned();
        let mut cause = Cause { node, fault: call.map(CallError::fault), word };
        let mut dampers = self.dampers.lock().unwrap_or_else(PoisonError::into_inner);
        if dampers.len() >= MAX_CAUSES {
            cause.word.clear();
        }
        self.failing.store(true, Relaxed);
        let node = cause.node.clone();
        let logged = dampers.entry(cause).or_default().begins(Instant::now());
        // A subscriber may check a limiter itself.
        drop(dampers);
        if let Some(others) = logged {
            let node = node.as_deref();
            let follows = match kind {
                FallbackKind::Allow => "checks are admitted and not counted",
                FallbackKind::Deny => "checks are refused",
                FallbackKind::Local => "checks are decided in this process's memory",
            };
            // Without the policy's name, which the line has.
            let why: &dyn Display = call.map_or(error, |call| call);
            tracing::warn!(policy, node, "no decision by the store, so {follows}: {why}{others}");
        }
    }

    /// Notes that the store has decided a check under `policy`.
    pub(crate) fn ends(&self, policy: &str, node: impl FnOnce() -> Option<Arc<str>>) {
        // Reads first, so that a check during normal operation writes nothing that threads share.
        if !self.failing.load(Relaxed) {
            return;
        }
        let node = node();
        let mut dampers = self.dampers.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut was_logged, mut is_failing) = (false, false);
        for (cause, damper) in &mut *dampers {
            if cause.node == node {
                was_logged |= damper.ends();
            } else {
                is_failing |= damper.is_failing();
            }
        }
        self.failing.store(is_failing, Relaxed);
        drop(dampers);
        if was_logged {
            let node = node.as_deref();
            tracing::info!(policy, node, "the store decides again");
        }
    }
}
