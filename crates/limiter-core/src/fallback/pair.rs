//! The two limiters of a fallback, whatever their types are.

use alloc::sync::Arc;
use core::{
    num::NonZeroU32,
    sync::atomic::{AtomicU32, Ordering},
};
use std::sync::{Mutex, PoisonError, RwLock};

use crate::{
    Cost, Decision, Error, Key, Limiter, LimiterFuture, Policy, Receipt, Reservation, Source,
};

/// The limiter on the store, and the local one, in memory.
pub(super) struct Pair {
    pub(super) store: Arc<dyn Limiter>,
    /// Of all handles: how many processes share the store's policy, or 0 if the local limiter has one of its own.
    pub(super) processes: Arc<AtomicU32>,
    /// The first local handle, and for how many processes it was made. It is read without a lock.
    first: (u32, Arc<dyn Limiter>),
    /// The local handle for another number of processes.
    other: RwLock<(u32, Arc<dyn Limiter>)>,
}

/// The token of a receipt for what the store has charged: the store's receipt, and the local one for the same charge.
struct Charged(Mutex<Option<(Receipt, Option<Receipt>)>>);

/// Charges the local limiter with what the store has charged.
pub(super) type Follow = fn(&(dyn Limiter + 'static), &Key<'_>, Cost) -> LimiterFuture<Reservation>;

impl Pair {
    pub(super) fn new(
        store: Arc<dyn Limiter>,
        processes: Arc<AtomicU32>,
        first: (u32, Arc<dyn Limiter>),
    ) -> Arc<Self> {
        let other = RwLock::new(first.clone());
        Arc::new(Self { store, processes, first, other })
    }

    /// Returns what the future of an operation needs.
    pub(super) fn owned(self: &Arc<Self>, key: &Key<'_>) -> (Arc<Self>, Key<'static>) {
        (Arc::clone(self), key.clone().into_owned())
    }

    /// Returns the local limiter, under another share if the number of processes has changed.
    pub(super) fn local(&self) -> Arc<dyn Limiter> {
        self.with_local(Arc::clone)
    }

    fn with_local<T>(&self, ask: impl FnOnce(&Arc<dyn Limiter>) -> T) -> T {
        let number = self.processes.load(Ordering::Relaxed);
        if self.first.0 == number { ask(&self.first.1) } else { ask(&self.other(number)) }
    }

    /// Returns the local limiter for so many processes.
    fn other(&self, number: u32) -> Arc<dyn Limiter> {
        {
            let other = self.other.read().unwrap_or_else(PoisonError::into_inner);
            if other.0 == number {
                return Arc::clone(&other.1);
            }
        }
        let mut other = self.other.write().unwrap_or_else(PoisonError::into_inner);
        let share = share(self.store.policy(), number);
        if let Ok(local) = share.and_then(|share| other.1.with_policy(&share)) {
            *other = (number, local);
        }
        Arc::clone(&other.1)
    }

    /// Charges the local limiter with what the store has admitted, or with as much of it as fits there. Without a receipt,
    /// so that nothing is allocated in memory.
    pub(super) fn follow(&self, key: &Key<'_>, cost: Cost) -> LimiterFuture<()> {
        let charged = self.with_local(|it| it.check_n(key, cost));
        if let Some(Ok(decision)) = charged.as_ready()
            && (decision.is_admitted() || cost == Cost::ONE)
        {
            return LimiterFuture::ready(Ok(()));
        }
        let (local, key) = (self.local(), key.clone().into_owned());
        LimiterFuture::pending(async move {
            if !charged.await?.is_admitted() {
                drop(local.take_up_to(&key, cost).await);
            }
            Ok(())
        })
    }

    /// Asks the local limiter, if the store has failed by `error`.
    pub(super) async fn ask_local<T>(
        &self,
        error: Error,
        ask: impl FnOnce(&dyn Limiter) -> LimiterFuture<T>,
    ) -> Result<T, Error> {
        match error.is_of_store() {
            true => ask(&*self.local()).await.map_err(|_| error),
            false => Err(error),
        }
    }

    /// Charges the local limiter by `follow` with what the store has reserved, or asks it if the store has failed.
    pub(super) fn reserved(
        self: &Arc<Self>,
        key: &Key<'_>,
        reserved: LimiterFuture<Reservation>,
        ask: impl FnOnce(&dyn Limiter, &Key<'_>) -> LimiterFuture<Reservation> + Send + 'static,
        follow: Follow,
    ) -> LimiterFuture<Reservation> {
        let (pair, key) = self.owned(key);
        LimiterFuture::pending(async move {
            let reserved = match reserved.await {
                Ok(reserved) => reserved,
                Err(error) => {
                    let local = pair.ask_local(error, |it| ask(it, &key)).await?;
                    let decision = as_local(local.decision());
                    return Ok(replace(local, decision, |receipt| receipt));
                }
            };
            let Ok(permits) = Cost::new(reserved.permits()) else { return Ok(reserved) };
            let local = follow(&*pair.local(), &key, permits).await;
            let local = local.ok().and_then(Reservation::into_receipt);
            let decision = reserved.decision();
            Ok(replace(reserved, decision, |receipt| charged(receipt, local)))
        })
    }

    /// Gives back permits where they were charged.
    pub(super) fn refund(&self, receipt: Receipt) -> LimiterFuture<u64> {
        let local = self.local();
        let Some(Charged(receipts)) = receipt.token() else {
            // The local limiter's receipt, or another limiter's.
            return local.refund(receipt);
        };
        let taken = receipts.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((of_store, of_local)) = taken else { return LimiterFuture::ready(Ok(0)) };
        let back = |it: Receipt, permits: u64| {
            let kept = it.permits().saturating_sub(permits);
            it.keep(kept)
        };
        let permits = receipt.permits();
        let refunded = self.store.refund(back(of_store, permits));
        LimiterFuture::pending(async move {
            let returned = refunded.await?;
            if let Some(receipt) = of_local {
                drop(local.refund(back(receipt, permits)).await);
            }
            Ok(returned)
        })
    }
}

/// Returns what the local limiter enforces of `policy`.
pub(super) fn share(policy: &Policy, processes: u32) -> Result<Policy, Error> {
    match NonZeroU32::new(processes) {
        Some(processes) => policy.share_among(processes),
        None => Ok(policy.clone()),
    }
}

/// Returns the reservation with another decision and another receipt.
fn replace(
    reserved: Reservation,
    decision: Decision,
    receipt: impl FnOnce(Receipt) -> Receipt,
) -> Reservation {
    let (delay, permits) = (reserved.delay(), reserved.permits());
    match (delay, reserved.into_receipt()) {
        (Some(delay), Some(charged)) => Reservation::admitted(decision, delay, receipt(charged)),
        (Some(_), None) => Reservation::uncounted(decision, permits),
        (None, _) => Reservation::refused(decision),
    }
}

/// Returns the receipt of a charge by the store, with the local one.
pub(super) fn charged(of_store: Receipt, of_local: Option<Receipt>) -> Receipt {
    let permits = of_store.permits();
    Receipt::new(Charged(Mutex::new(Some((of_store, of_local)))), permits)
}

/// Returns a decision as the local limiter's.
pub(super) fn as_local(decision: Decision) -> Decision {
    decision.with_source(Source::Local)
}
