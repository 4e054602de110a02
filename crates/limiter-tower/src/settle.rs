//! What a request was charged, and settling it afterwards.
//!
//! [`Rule::settle`](crate::Rule::settle) and [`Rule::charge_after`](crate::Rule::charge_after) settle by the response's
//! head, and [`Charge`] in a handler.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    time::Duration,
};

use limiter_core::{Blocks, Cost, Key, LimiterFuture, Receipt};

pub use crate::head::ResponseHead;
use crate::{
    observe::log,
    plan::Plan,
    rule::{Blocking, Keep, Rule, Strike},
};

/// The permits that a request was charged, for a handler to settle.
///
/// A layer with [`chargeable`](crate::RateLimitLayer::chargeable) inserts it into the extensions of requests. Clones are
/// handles on one charge: the first settlement of a rule wins. Without any settlement the full charge stays. With nested
/// layers, a handler settles the charges of all of them.
///
/// ```
/// use limiter_tower::{Rule, settle::Charge};
///
/// /// The request was charged 1,000 tokens, which is enough for most completions.
/// fn completed(charge: &Charge, tokens: &Rule, used: u64) {
///     charge.keep(tokens, used);
/// }
/// ```
#[derive(Clone, Default)]
pub struct Charge {
    charges: Arc<Mutex<Charges>>,
    /// The charge of an outer layer.
    outer: Option<Arc<Charge>>,
}

#[derive(Default)]
struct Charges {
    of_rules: Vec<Charged>,
    /// Whether a handler settles them, and not the layer.
    are_taken: bool,
}

/// What one rule has charged. Dropping it keeps the charge.
pub(crate) struct Charged {
    pub(crate) rule: Rule,
    pub(crate) plan: Plan,
    pub(crate) key: Key<'static>,
    /// `None` if nothing was charged yet.
    pub(crate) receipt: Option<Receipt>,
    /// How much was kept, once it is settled.
    pub(crate) kept: Option<u64>,
}

impl Charge {
    pub(crate) fn new(of_rules: Vec<Charged>) -> Self {
        let charges = Charges { of_rules, are_taken: false };
        Self { charges: Arc::new(Mutex::new(charges)), outer: None }
    }

    /// Sets the charge of the layer around this one's, if that has one.
    pub(crate) fn set_outer(&mut self, outer: Option<&Self>) {
        self.outer = outer.cloned().map(Arc::new);
    }

    /// Sets what the request costs by `rule`: refunds what was charged above `permits`, as far as it still counts, or
    /// charges the difference, whether or not it fits. See [`Limiter::refund`](limiter_core::Limiter::refund) and
    /// [`Limiter::charge`](limiter_core::Limiter::charge).
    ///
    /// Does nothing if the rule has not counted the request, or if its charge was settled before. The refund or charge is
    /// sent now, without waiting for it.
    pub fn keep(&self, rule: &Rule, permits: u64) {
        for charged in &mut self.lock().of_rules {
            if charged.rule.is(rule) {
                charged.keep(permits);
            }
        }
        if let Some(outer) = &self.outer {
            outer.keep(rule, permits);
        }
    }

    /// Makes the caller responsible for settling the charge, so that [`Rule::settle`] and [`Rule::charge_after`] do not
    /// apply: for a stream that ends after the response's head was sent.
    #[must_use = "the charge stays unless it is settled"]
    pub fn take(&self) -> Self {
        self.lock().are_taken = true;
        if let Some(outer) = &self.outer {
            let _ = outer.take();
        }
        self.clone()
    }

    /// Settles by the response, unless a handler does. Calls `settled` with each rule whose charge is settled, and
    /// with what it keeps.
    pub(crate) fn settle(&self, response: ResponseHead<'_>, mut settled: impl FnMut(&Rule, u64)) {
        let rule_at = |place: usize| Some(self.lock().of_rules.get(place)?.rule.clone());
        for (place, rule) in (0..).map_while(rule_at).enumerate() {
            // Without the lock, because the rule's closures may use a clone of this charge.
            let strike = rule.strike_of(response);
            let kept = if self.lock().are_taken { None } else { rule.kept_of(response) };
            let mut charges = self.lock();
            let are_taken = charges.are_taken;
            let Some(charged) = charges.of_rules.get_mut(place) else { return };
            charged.send(strike);
            if let Some(kept) = kept.filter(|_| !are_taken) {
                // Only a charge after the response may be more than before.
                let most = if rule.settings.settle.is_some() { charged.permits() } else { kept };
                charged.keep(kept.min(most));
            }
            let kept = charged.kept;
            drop(charges);
            if let Some(kept) = kept {
                settled(&rule, kept);
            }
        }
    }

    /// Refunds all charges that are not settled.
    pub(crate) fn refund(&self) {
        self.lock().of_rules.iter_mut().for_each(|charged| charged.keep(0));
    }

    fn lock(&self) -> MutexGuard<'_, Charges> {
        self.charges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Charge").finish_non_exhaustive()
    }
}

impl Rule {
    /// Returns how the response counts for the block of the key.
    fn strike_of(&self, response: ResponseHead<'_>) -> Strike {
        match &self.settings.block {
            Some(Blocking { strikes: Some(strike), .. }) => strike(response),
            _ => Strike::Ignore,
        }
    }

    /// Returns how many permits the rule keeps. `None` if the charge stays as it is.
    fn kept_of(&self, response: ResponseHead<'_>) -> Option<u64> {
        match &self.settings.settle {
            Some(settle) => match settle(response) {
                Keep::All => None,
                Keep::None => Some(0),
                Keep::Only(permits) => Some(permits),
            },
            None => self.settings.charge_after.as_ref()?(response).map(Cost::get),
        }
    }
}

impl Charged {
    /// Sends an outcome to the rule's block, if it has one.
    pub(crate) fn send(&self, strike: Strike) {
        let Some(Blocking { blocks, .. }) = &self.rule.settings.block else { return };
        match strike {
            Strike::Count => drop(send_strike(blocks, &self.key, &self.rule)),
            Strike::Success => drop(send(blocks.success(&self.key), &self.rule)),
            Strike::Ignore => {}
        }
    }

    /// Refunds or charges the difference between what was charged and `permits`, unless that was done.
    pub(crate) fn keep(&mut self, permits: u64) {
        if self.kept.is_some() {
            return;
        }
        self.kept = Some(permits);
        let charged = self.permits();
        match (self.receipt.take(), Cost::new(permits.saturating_sub(charged))) {
            (_, Ok(more)) => drop(send(self.plan.limiter().charge(&self.key, more), &self.rule)),
            (Some(receipt), Err(_)) => {
                let receipt = receipt.keep(permits);
                if receipt.permits() > 0 {
                    drop(send(self.plan.limiter().refund(receipt), &self.rule));
                }
            }
            (None, Err(_)) => {}
        }
    }

    fn permits(&self) -> u64 {
        self.receipt.as_ref().map_or(0, Receipt::permits)
    }
}

/// Counts a strike, as [`send`] does, and reports the block that it starts. Returns how long that is.
pub(crate) fn send_strike(
    blocks: &Blocks,
    key: &Key<'_>,
    rule: &Rule,
) -> impl Future<Output = Option<Duration>> + use<> {
    let mut strike = blocks.strike(key);
    let reported = rule.clone();
    let strike = match strike.take_ready() {
        Some(result) => LimiterFuture::ready(result.inspect(|block| report_block(*block, rule))),
        None => LimiterFuture::pending(async move {
            strike.await.inspect(|block| report_block(*block, &reported))
        }),
    };
    let sent = send(strike, rule);
    async { sent.await.flatten() }
}

fn report_block(blocked_for: Option<Duration>, rule: &Rule) {
    if let Some(blocked_for) = blocked_for {
        log::blocked(rule.name(), blocked_for);
        #[cfg(feature = "metrics")]
        rule.spec().live.metrics.record_block();
    }
}

/// Executes an operation, whether or not anything polls it or what this returns. Counts it if it fails. Its result is
/// `None` then.
pub(crate) fn send<T: Send + 'static>(
    mut operation: LimiterFuture<T>,
    rule: &Rule,
) -> impl Future<Output = Option<T>> + use<T> {
    let (executed, task) = match operation.take_ready() {
        Some(result) => {
            if result.is_err() {
                count_unsent(rule);
            }
            (result.ok(), None)
        }
        None => (None, spawn(operation, rule.clone())),
    };
    async { if let Some(task) = task { task.await } else { executed } }
}

fn count_unsent(rule: &Rule) {
    rule.shared().unsent.fetch_add(1, Ordering::Relaxed);
}

/// Polls the operation in a task of its own, if there is a runtime, and returns its result.
fn spawn<T: Send + 'static>(
    operation: LimiterFuture<T>,
    rule: Rule,
) -> Option<impl Future<Output = Option<T>> + use<T>> {
    let uncertain = Unsent(Some(rule));
    let task = async move {
        let result = operation.await.ok()?;
        uncertain.disarm();
        Some(result)
    };
    #[cfg(feature = "tokio")]
    {
        let task = tokio::runtime::Handle::try_current().ok()?.spawn(task);
        Some(async { task.await.ok().flatten() })
    }
    #[cfg(not(feature = "tokio"))]
    {
        drop(task);
        None::<std::future::Ready<Option<T>>>
    }
}

/// An operation that counts as unsent when this is dropped: it failed, or there is no runtime, or that was shut down.
struct Unsent(Option<Rule>);

impl Unsent {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        if let Some(rule) = &self.0 {
            count_unsent(rule);
        }
    }
}
