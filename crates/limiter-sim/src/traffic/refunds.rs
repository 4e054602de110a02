//! Refunds of what callers were admitted.

use limiter_core::ErrorKind;

use super::caller::{Caller, Kept};
use crate::records::{End, Records};

impl Caller {
    /// Refunds one of the receipts, or a part of it.
    pub(super) async fn refund(&mut self) {
        let Some(Kept { target, receipt, admission }) = self.take() else { return };
        let kept = if self.random.below(3) == 0 { self.random.below(receipt.permits()) } else { 0 };
        let receipt = receipt.keep(kept);
        let permits = receipt.permits();
        let Some(handle) = self.member.handle(target) else { return };
        let operation = self.asks(target, ("refund", permits));
        let less = admission.map(|id| {
            let refunds =
                |records: &mut Records, moment| records.refunds(moment, &operation, id, permits);
            (id, self.member.with_records(refunds))
        });
        let answer = handle.refund(receipt);
        let answer = self.wait(answer).await;
        let (returned, end) = match &answer {
            Some(Ok(returned)) => (Some(*returned), End::Answered),
            Some(Err(error)) => {
                let is_uncharged = error.kind() == ErrorKind::Unavailable;
                (is_uncharged.then_some(0), End::Failed(error))
            }
            None => (None, End::Left),
        };
        if let Some(less) = less {
            self.member.with_records(|records, moment| {
                records.refunded(moment, &operation, less, returned);
            });
        }
        self.end(&operation, end);
    }
}
