//! What the receipts of a limiter in memory hold.

use alloc::sync::Arc;

use super::states::Bound;
use crate::algorithm::Charge;

/// What a receipt gives back, and where.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(super) limiter: u64,
    pub(super) hash: u64,
    /// By which it was charged.
    pub(super) bound: Arc<Bound>,
    pub(super) charge: Charge,
}
