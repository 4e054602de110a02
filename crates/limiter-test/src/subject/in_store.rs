//! A limiter in memory or in a store, on a clock that the test sets.

use std::{fmt, sync::Arc, time::Duration};

use limiter_core::{
    Algorithm, Cost, Decision, Limiter, LimiterFuture, Policy, Receipt, Reservation, Source,
    Store as _, Timestamp, Usage,
};

use super::Subject;

/// A process that calls a store, whose clock the test sets.
pub trait Process {
    /// Returns the smallest step of the store's clock, and the unit of its waits: a microsecond, as in Redis.
    fn tick(&self) -> Duration {
        Duration::from_micros(1)
    }

    /// Returns whether a decision over a list is one step of the store, which asks all demands and knows all waits.
    fn lists_are_one_step(&self) -> bool {
        false
    }

    /// Sets the store's clock, also to a time before the present one.
    fn set_clock(&self, now: Timestamp);

    /// Waits for a result, and for all that follows from it.
    ///
    /// # Panics
    ///
    /// If the result is an error.
    fn wait_for<T>(&self, future: LimiterFuture<T>) -> T;
}

/// A limiter in a store. Each decision is compared with its preview, where the store has one.
pub struct InStore<P, L> {
    /// The process that calls the store.
    pub process: Arc<P>,
    /// The limiter as it was built.
    pub limiter: L,
    /// The handle in use.
    handle: Arc<dyn Limiter>,
    /// The store's time at the test's zero.
    epoch: Duration,
}

impl<P, L> fmt::Debug for InStore<P, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InStore").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

impl<P, L: Limiter + Clone + 'static> InStore<P, L> {
    /// Returns the subject of a limiter of the first of several policies that take turns.
    pub fn of(process: Arc<P>, limiter: L, policies: &[Policy]) -> Self {
        Self::since(epoch(policies), process, limiter)
    }

    /// Returns the subject of a limiter in a store whose time is `epoch` at the test's zero.
    pub(super) fn since(epoch: Duration, process: Arc<P>, limiter: L) -> Self {
        let handle = Arc::new(limiter.clone());
        Self { process, limiter, handle, epoch }
    }
}

impl<P: Process, L> InStore<P, L> {
    /// Sets the clock to a time since the test's zero.
    pub fn set_clock(&self, now: Timestamp) {
        self.process.set_clock(now.saturating_add(self.epoch));
    }

    fn at<T>(&self, now: Timestamp, ask: impl FnOnce(&dyn Limiter) -> LimiterFuture<T>) -> T {
        self.set_clock(now);
        self.process.wait_for(ask(&*self.handle))
    }
}

impl<P: Process, L: Limiter> Subject for InStore<P, L> {
    fn tick(&self) -> Duration {
        self.process.tick()
    }

    fn policy(&self) -> Policy {
        self.handle.policy().clone()
    }

    fn switch(&mut self, policy: &Policy) {
        self.handle = self.limiter.with_policy(policy).expect("a policy of the same families");
    }

    fn decide(&mut self, now: Timestamp, key: &str, cost: Cost) -> Decision {
        self.set_clock(now);
        let preview = self.handle.preview(&key.into(), cost);
        let decision = self.process.wait_for(self.handle.check_n(&key.into(), cost));
        // Several limits may be read beside the last free slot of a table, and then need one each.
        let may_differ = self.handle.policy().limits().len() > 1;
        if let Some(preview) = preview
            && (!may_differ || decision.source() != Source::FullTable)
        {
            compare(preview, decision, cost);
        }
        decision
    }

    fn peek(&mut self, now: Timestamp, key: &str) -> Usage {
        self.at(now, |limiter| limiter.peek(&key.into()))
    }

    fn reserve(&mut self, now: Timestamp, key: &str, cost: Cost, within: Duration) -> Reservation {
        self.at(now, |limiter| limiter.reserve(&key.into(), cost, within))
    }

    fn take_up_to(&mut self, now: Timestamp, key: &str, most: Cost) -> Reservation {
        self.at(now, |limiter| limiter.take_up_to(&key.into(), most))
    }

    fn charge(&mut self, now: Timestamp, key: &str, cost: Cost) -> Reservation {
        self.at(now, |limiter| limiter.charge(&key.into(), cost))
    }

    fn refund(&mut self, now: Timestamp, receipt: Receipt) -> u64 {
        self.at(now, |limiter| limiter.refund(receipt))
    }

    fn reset(&mut self, now: Timestamp, key: &str) {
        self.at(now, |limiter| limiter.reset(&key.into()));
    }
}

/// Compares the preview of a decision on `cost` with the decision.
fn compare(preview: Decision, decision: Decision, cost: Cost) {
    let figures = |it: Decision| (it.is_admitted(), it.retry_after());
    assert_eq!(figures(preview), figures(decision), "what a preview says");
    let (before, after) = (preview.remaining(), decision.remaining());
    // The usage in a preview is the one before the charge.
    let is_coherent = if decision.is_admitted() {
        before >= after.saturating_add(cost.get())
    } else {
        before == after
    };
    assert!(is_coherent, "{before} left in a preview of {cost}, and {after} after it");
}

/// A store's time with as many digits as a real one, at a day's start, so that windows by the clock begin where they do
/// for the limiter in memory.
pub const EPOCH: Duration = Duration::from_secs(19_700 * 86_400);

/// Returns a time of the store for a test's zero at which windows by the clock and slots begin, as
/// they do for the limiter in memory.
fn epoch(policies: &[Policy]) -> Duration {
    let mut common = 1;
    for limit in policies.iter().flat_map(Policy::limits) {
        let window = limit.quota().window().as_micros();
        let whole = match limit.algorithm() {
            Algorithm::SubWindows(slots) => {
                let number = u128::from(slots.number());
                window.div_ceil(number) * number
            }
            Algorithm::AlignedWindow => window,
            _ => 1,
        };
        common = common / gcd(common, whole) * whole;
    }
    let epoch = EPOCH.as_micros().next_multiple_of(common);
    // Of windows that have little in common, that may be later than a clock can show.
    let in_reach = u64::try_from(epoch).ok().filter(|epoch| *epoch < 1 << 52);
    in_reach.map_or(EPOCH, Duration::from_micros)
}

fn gcd(one: u128, other: u128) -> u128 {
    if other == 0 { one } else { gcd(other, one % other) }
}
