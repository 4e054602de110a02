//! A refund of a charge, and the reset of a subject.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use limiter_core::{LimiterId, Timestamp};

use super::request::{Operation, Request};
use crate::{
    client::{
        ScriptCall,
        faults::{CallError, Outcome, reported},
    },
    context::Context,
    events::EventKind,
    handle::Handle,
    scripts::{Charged, Plan, list},
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

/// Gives back permits of a charge.
pub(crate) struct Refund {
    pub(crate) token: Arc<Token>,
    pub(crate) permits: u64,
    pub(crate) forgotten: Forgotten,
}

impl Operation for Refund {
    type Output = u64;

    const OUTLIVES_CALLER: bool = true;

    fn call(first: &Request<Self>, _: &[Request<Self>]) -> ScriptCall {
        let Request { operation, handle, .. } = first;
        handle.plan.refund(&operation.token.charged, operation.permits)
    }

    fn read(&self, plan: &Plan, numbers: &[i64]) -> Option<u64> {
        plan.refunded(numbers)
    }

    fn note(request: &Request<Self>, _: &Context, _: Timestamp, _: &mut Outcome<u64>) {
        request.operation.forgotten.now();
    }

    fn failure(error: &Arc<CallError>) -> Option<EventKind> {
        Some(EventKind::RefundFailed(reported(error)))
    }
}

/// Makes a subject fresh.
pub(crate) struct Reset {
    /// What identifies the states of the limiter's logs.
    lists: Vec<Bytes>,
    forgotten: Forgotten,
    leases: Mutex<Option<ForgetLeases>>,
}

/// Gives up what is leased of the key.
type ForgetLeases = Box<dyn FnOnce() + Send>;

impl Reset {
    /// Returns the reset of a key, of which `forget` gives up what is leased. It is called once, when the reset has ended,
    /// whatever its outcome, also if its caller has left.
    pub(crate) fn new(
        lists: Vec<Bytes>,
        forgotten: Forgotten,
        forget: impl FnOnce() + Send + 'static,
    ) -> Self {
        Self { lists, forgotten, leases: Mutex::new(Some(Box::new(forget))) }
    }

    fn ends(&self) {
        self.forgotten.now();
        let forget = self.leases.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(forget) = forget {
            forget();
        }
    }
}

/// If the operation was not sent, or is dropped with its runtime.
impl Drop for Reset {
    fn drop(&mut self) {
        self.ends();
    }
}

impl Operation for Reset {
    type Output = ();

    const OUTLIVES_CALLER: bool = true;

    fn call(first: &Request<Self>, _: &[Request<Self>]) -> ScriptCall {
        first.handle.plan.reset()
    }

    /// Adds the hash, and the lists of all logs that a policy of the limiter has had.
    fn add_keys(request: &Request<Self>, all: &mut Vec<Bytes>) {
        all.push(request.key.clone());
        all.extend(request.operation.lists.iter().map(|identity| list(&request.key, identity)));
    }

    fn read(&self, _: &Plan, numbers: &[i64]) -> Option<()> {
        numbers.first().map(drop)
    }

    fn note(request: &Request<Self>, _: &Context, _: Timestamp, _: &mut Outcome<()>) {
        request.operation.ends();
    }
}

/// Removes the cached denials of a key when a refund or a reset has ended, whatever its outcome:
/// permits may have come back.
pub(crate) struct Forgotten {
    context: Arc<Context>,
    key: Bytes,
}

impl Forgotten {
    pub(crate) fn of(context: &Arc<Context>, key: &Bytes) -> Self {
        Self { context: Arc::clone(context), key: key.clone() }
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
