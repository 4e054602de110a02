//! What a request was charged, and settling it afterwards.
//!
//! [`RateLimitLayer::settle`](crate::RateLimitLayer::settle) settles by the response's head, and
//! [`Charge`] in a handler.

use std::{
    fmt, mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use limiter_core::{LimiterFuture, Receipt};

use crate::plan::Plan;
pub use crate::respond::ResponseHead;

/// How much of a charge is kept when a response is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Keep {
    /// All of it.
    All,
    /// None of it: the request was free.
    None,
    /// So many permits, at most the charge. The rest is refunded.
    Only(u64),
}

/// The permits that a request was charged, for a handler to settle.
///
/// A layer with [`settle`](crate::RateLimitLayer::settle) or
/// [`chargeable`](crate::RateLimitLayer::chargeable) inserts it into the extensions of admitted
/// requests. Clones are handles on one charge: the first settlement wins. Without any settlement the
/// full charge stays. With nested layers, a handler settles the charges of all of them.
///
/// ```
/// use limiter_tower::settle::Charge;
///
/// /// The request was charged 1,000 permits, the most that a completion can have.
/// fn completed(charge: &Charge, tokens: u64) {
///     charge.keep(tokens);
/// }
/// ```
#[derive(Clone)]
pub struct Charge {
    settlement: Arc<Mutex<Settlement>>,
    /// The charge of an outer layer.
    outer: Option<Arc<Charge>>,
}

struct Settlement {
    charges: Charges,
    /// Whether a handler settles it, and not the layer.
    is_taken: bool,
    /// How many permits each rule keeps at most, once it is settled.
    kept: Option<u64>,
}

impl Charge {
    pub(crate) fn new(charges: Charges) -> Self {
        let settlement = Settlement { charges, is_taken: false, kept: None };
        Self { settlement: Arc::new(Mutex::new(settlement)), outer: None }
    }

    /// Sets the charge of the layer around this one's, if that has one.
    pub(crate) fn set_outer(&mut self, outer: Option<&Self>) {
        self.outer = outer.cloned().map(Arc::new);
    }

    /// Keeps `permits` of each rule's charge, at most all of it, and refunds the rest as far as it still
    /// counts: see [`Limiter::refund`](limiter_core::Limiter::refund). Does nothing if the charge was
    /// settled before. A request that was delayed is settled like any other.
    ///
    /// The refund is sent now, without waiting for it.
    pub fn keep(&self, permits: u64) {
        self.settle_if(|_| true, permits);
        if let Some(outer) = &self.outer {
            outer.keep(permits);
        }
    }

    /// Makes the caller responsible for settling the charge, so that the layer's
    /// [`settle`](crate::RateLimitLayer::settle) does not apply: for a stream that ends after the
    /// response's head was sent. Does nothing if the charge was settled before.
    #[must_use = "the charge stays unless it is settled"]
    pub fn take(&self) -> Self {
        self.settlement().is_taken = true;
        if let Some(outer) = &self.outer {
            let _ = outer.take();
        }
        self.clone()
    }

    /// Settles the charge for the layer, unless a handler does.
    pub(crate) fn settle(&self, keep: Keep) {
        let permits = match keep {
            Keep::All => u64::MAX,
            Keep::None => 0,
            Keep::Only(permits) => permits,
        };
        self.settle_if(|settlement| !settlement.is_taken, permits);
    }

    /// Returns how many permits each rule keeps at most, if the charge was settled.
    pub(crate) fn kept(&self) -> Option<u64> {
        self.settlement().kept
    }

    fn settle_if(&self, may_settle: impl FnOnce(&Settlement) -> bool, permits: u64) {
        let mut settlement = self.settlement();
        if settlement.kept.is_some() || !may_settle(&settlement) {
            return;
        }
        settlement.kept = Some(permits);
        let charges = mem::take(&mut settlement.charges);
        drop(settlement);
        charges.refund_above(permits);
    }

    fn settlement(&self) -> MutexGuard<'_, Settlement> {
        self.settlement.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Charge").finish_non_exhaustive()
    }
}

/// The charges of one request. Dropping them keeps them.
#[derive(Default)]
pub(crate) struct Charges(Vec<Charged>);

struct Charged {
    plan: Plan,
    receipt: Receipt,
    unsent: Arc<UnsentRefunds>,
}

/// How many refunds could not be sent.
#[derive(Debug, Default)]
pub(crate) struct UnsentRefunds(AtomicU64);

impl UnsentRefunds {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Charges {
    pub(crate) fn push(&mut self, plan: Plan, receipt: Receipt, unsent: &Arc<UnsentRefunds>) {
        self.0.push(Charged { plan, receipt, unsent: Arc::clone(unsent) });
    }

    /// Refunds each charge but for `permits`.
    pub(crate) fn refund_above(self, permits: u64) {
        for Charged { plan, receipt, unsent } in self.0 {
            let receipt = receipt.keep(permits);
            if receipt.permits() > 0 {
                send(plan.limiter().refund(receipt), unsent);
            }
        }
    }
}

/// Executes a refund, whether or not anything polls it. Counts it if that fails.
fn send(mut refund: LimiterFuture<u64>, unsent: Arc<UnsentRefunds>) {
    match refund.take_ready() {
        Some(Ok(_)) => {}
        Some(Err(_)) => unsent.count(),
        None => spawn(refund, unsent),
    }
}

/// Polls the refund in a task of its own.
#[cfg(feature = "tokio")]
fn spawn(refund: LimiterFuture<u64>, unsent: Arc<UnsentRefunds>) {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => {
            let uncertain = RefundGuard(Some(unsent));
            runtime.spawn(async move {
                if refund.await.is_ok() {
                    uncertain.disarm();
                }
            });
        }
        Err(_) => unsent.count(),
    }
}

/// A refund that counts as unsent when this is dropped: it failed, or the runtime was shut down.
#[cfg(feature = "tokio")]
struct RefundGuard(Option<Arc<UnsentRefunds>>);

#[cfg(feature = "tokio")]
impl RefundGuard {
    fn disarm(mut self) {
        self.0 = None;
    }
}

#[cfg(feature = "tokio")]
impl Drop for RefundGuard {
    fn drop(&mut self) {
        if let Some(unsent) = &self.0 {
            unsent.count();
        }
    }
}

#[cfg(not(feature = "tokio"))]
fn spawn(_: LimiterFuture<u64>, unsent: Arc<UnsentRefunds>) {
    unsent.count();
}
