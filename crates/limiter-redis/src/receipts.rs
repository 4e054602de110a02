//! The token of a receipt for a charge in the store.

use std::sync::{Arc, Mutex, PoisonError};

use limiter_core::{Cost, Receipt};

use crate::{handle::Handle, scripts::Charged};

/// What was charged to which key.
pub(crate) struct Token {
    /// The limiter that issued the receipt.
    pub(crate) limiter: u64,
    pub(crate) key: Vec<u8>,
    pub(crate) charged: Charged,
    /// The handle that charged, because a charge's marks are in units of its quota.
    pub(crate) handle: Arc<Handle>,
    /// The local fallback's receipt for the same charge.
    local: Mutex<Option<Receipt>>,
}

impl Token {
    pub(crate) fn new(
        limiter: u64,
        key: Vec<u8>,
        charged: Charged,
        handle: Arc<Handle>,
        local: Option<Receipt>,
    ) -> Self {
        Self { limiter, key, charged, handle, local: Mutex::new(local) }
    }

    pub(crate) fn into_receipt(self, cost: Cost) -> Receipt {
        Receipt::of_store(self, cost.get())
    }

    /// Returns the local fallback's receipt for `permits`, once.
    pub(crate) fn take_local(&self, permits: u64) -> Option<Receipt> {
        let receipt = self.local.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let kept = receipt.permits().saturating_sub(permits);
        Some(receipt.keep(kept))
    }
}
