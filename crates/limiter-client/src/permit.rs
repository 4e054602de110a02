//! A permit to send one request.

use std::sync::Arc;

use limiter_core::{Limiter as _, Receipt, WaitingLimiter};

use crate::event::{EventKind, Reporter};

/// A permit that was charged. It is refunded if it is dropped before the request is sent.
pub(crate) struct Permit {
    pub(crate) limiter: Arc<dyn WaitingLimiter>,
    /// `None` once the request was sent.
    pub(crate) receipt: Option<Receipt>,
    pub(crate) host: Arc<str>,
    pub(crate) reporter: Reporter,
}

impl Permit {
    /// Keeps the charge, because the request is sent.
    pub(crate) fn commit(mut self) {
        self.receipt = None;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(receipt) = self.receipt.take() else { return };
        let failure = RefundFailure(Some((self.reporter.clone(), Arc::clone(&self.host))));
        let mut refund = self.limiter.refund(receipt);
        match refund.take_ready() {
            Some(result) => failure.unless(result.is_ok()),
            // A store has to answer. Without a runtime, the refund is not sent and `failure` reports it.
            None => {
                if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                    runtime.spawn(async move { failure.unless(refund.await.is_ok()) });
                }
            }
        }
    }
}

/// Reports a failed refund when it is dropped: also if the runtime shuts down before the store answers.
struct RefundFailure(Option<(Reporter, Arc<str>)>);

impl RefundFailure {
    fn unless(mut self, is_refunded: bool) {
        if is_refunded {
            self.0 = None;
        }
    }
}

impl Drop for RefundFailure {
    fn drop(&mut self) {
        if let Some((reporter, host)) = self.0.take() {
            reporter.report(&host, EventKind::RefundFailed);
        }
    }
}
