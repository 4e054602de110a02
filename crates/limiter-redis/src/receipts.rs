//! What a receipt tells of a charge in the store.

use std::sync::{Arc, Mutex, PoisonError};

use limiter_core::{Cost, Receipt};

use crate::scripts::{Charged, Plan};

/// What was charged at which key.
pub(crate) struct Token {
    /// Which gave it out.
    pub(crate) limiter: u64,
    pub(crate) key: Vec<u8>,
    pub(crate) tier: usize,
    pub(crate) charged: Charged,
    /// By which it was charged: by another, its marks mean nothing.
    pub(crate) plan: Arc<Plan>,
    /// What the limiter in memory has charged to follow the store.
    local: Mutex<Option<Receipt>>,
}

impl Token {
    pub(crate) fn into_receipt(self, cost: Cost) -> Receipt {
        Receipt::of_store(self, cost.get())
    }

    pub(crate) fn new(
        (limiter, tier): (u64, usize),
        key: Vec<u8>,
        charged: Charged,
        plan: Arc<Plan>,
        local: Option<Receipt>,
    ) -> Self {
        Self { limiter, key, tier, charged, plan, local: Mutex::new(local) }
    }

    /// Returns the receipt of the limiter in memory, once, for as many permits as are to be given
    /// back.
    pub(crate) fn take_local(&self, permits: u64) -> Option<Receipt> {
        let receipt = self.local.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let kept = receipt.permits().saturating_sub(permits);
        Some(receipt.keep(kept))
    }
}
