//! A permit to send one request.

use std::sync::Arc;

use limiter_core::{Answer, Receipt, WaitingLimiter};

/// A permit that was charged. It is refunded if it is dropped before the request is sent.
pub(crate) struct Permit {
    limiter: Arc<dyn WaitingLimiter>,
    /// `None` once the request was sent.
    receipt: Option<Receipt>,
}

impl Permit {
    pub(crate) const fn new(limiter: Arc<dyn WaitingLimiter>, receipt: Receipt) -> Self {
        Self { limiter, receipt: Some(receipt) }
    }

    /// Keeps the charge, because the request is sent.
    pub(crate) fn commit(mut self) {
        self.receipt = None;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(receipt) = self.receipt.take() {
            execute(self.limiter.refund(receipt));
        }
    }
}

/// Executes a refund, in a task of its own if a store has to answer.
fn execute(mut refund: Answer<u64>) {
    if refund.take_ready().is_none()
        && let Ok(runtime) = tokio::runtime::Handle::try_current()
    {
        runtime.spawn(refund);
    }
}
