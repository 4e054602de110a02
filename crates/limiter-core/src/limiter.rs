//! The interface of every limiter, whether its states live in memory or in a store.

use alloc::sync::Arc;
use core::{any::Any, fmt, time::Duration};

use crate::{
    Cost, Decision, Error, JointDecision, Key, LimiterFuture, LimiterId, Policy, Receipt,
    Reservation, Source, Usage,
};

/// Applies a policy to many keys.
///
/// Implementations keep a key's state in memory ([`MemoryLimiter`](crate::MemoryLimiter)) or in a
/// store that processes share. The trait is object-safe: a program that chooses at run time holds an
/// `Arc<dyn Limiter>`.
///
#[doc = include_str!("../docs/items/limiter.md")]
///
/// # Errors
///
/// A result is an error if the store fails, of the [kind](crate::ErrorKind) `Unavailable`,
/// `Undetermined` or `Unexpected`. A refusal is not an error. A limiter in memory is ready at once and
/// returns no error.
#[diagnostic::on_unimplemented(
    note = "instead of an `Arc` of a limiter, pass a clone of it, which has the same states, or an `Arc<dyn Limiter>`",
    note = "a `Result`, such as that of `connect`, needs a `?` first"
)]
pub trait Limiter: Store {
    /// Returns the policy that this handle enforces.
    fn policy(&self) -> &Policy;

    /// Returns what holds the states, for metrics and events: `memory`, `redis`, or the name of another
    /// store. The futures of a limiter that returns `memory` have to be ready when they are first polled: a layer drops
    /// one that is not, and asks again.
    fn store(&self) -> &'static str {
        "other"
    }

    /// Charges one permit to `key` if it fits now: [`check_n`](Self::check_n) with a cost of one.
    fn check(&self, key: &Key<'_>) -> LimiterFuture<Decision> {
        self.check_n(key, Cost::ONE)
    }

    /// Charges `cost` to `key` if it fits now. Never waits for permits.
    fn check_n(&self, key: &Key<'_>, cost: Cost) -> LimiterFuture<Decision>;

    /// Returns how far the permits of `key` are used up, and charges nothing.
    fn peek(&self, key: &Key<'_>) -> LimiterFuture<Usage>;

    /// Charges `cost` to `key` if it fits now or up to `within` later, and returns the delay. What is
    /// charged later has to wait behind it.
    ///
    /// Permits are promised no farther ahead than the policy's horizon. With `within` zero, this is
    /// [`check_n`](Self::check_n) with a receipt.
    fn reserve(&self, key: &Key<'_>, cost: Cost, within: Duration) -> LimiterFuture<Reservation>;

    /// Charges as many permits as fit now, at most `most`, in one step, and returns how many:
    /// [`permits`](Reservation::permits). If not one fits, it is a refusal with the wait for one.
    ///
    /// For consumers of batches: with 30 permits left, a request for 100 gets 30. Of several limits, the one
    /// with the fewest permits left decides. A [`refund`](Self::refund) gives back what was not used.
    fn take_up_to(&self, key: &Key<'_>, most: Cost) -> LimiterFuture<Reservation>;

    /// Charges `cost` whether or not it fits, and returns how many permits were charged:
    /// [`permits`](Reservation::permits). The decision is an admission, with the usage after the charge.
    ///
    /// For what is known only after the work: the tokens of an answer, the bytes of a response. Ask for one
    /// permit by [`check`](Self::check) before, and charge the others after. Until the debt has
    /// recovered, checks are refused, and waiters wait longer.
    ///
    /// - By GCRA and leaky queues, a debt grows up to that of a burst and the horizon, in whole permits.
    /// - By windows, counters, logs and sub-windows, all of the cost is charged unless more than the limit
    ///   counts already, or permits are reserved for a later window or slot; otherwise nothing.
    /// - Each of several limits is charged up to its own bound. `permits` and the receipt have the fewest that
    ///   one of them was charged, so that a refund never gives back more.
    /// - A limiter in memory whose table is full refuses, and charges nothing: see [`Source::FullTable`].
    ///
    /// If one request after the other checks one permit and is then charged up to `n` more, a trailing window `W`
    /// admits at most:
    ///
    /// | algorithm | permits |
    /// |---|---|
    /// | GCRA, leaky queue | `burst + permits * W / window + n`, if `n` permits recover within the horizon |
    /// | log, strict sub-windows | `permits + n`, if `W` is the window |
    /// | fixed and aligned window, sliding counter, loose sub-windows | `2 * (permits + n)`, if `W` is the window |
    ///
    /// Each further request that is in flight at the same time adds up to `n`.
    fn charge(&self, key: &Key<'_>, cost: Cost) -> LimiterFuture<Reservation>;

    /// Gives back the permits of `receipt` as far as they still count, and returns their number: of several
    /// limits, the most that came back to one. The receipt is used up, even if the result is an error.
    ///
    /// - By GCRA, what comes back is at most the cost less what would have drained since, if the charge
    ///   had been alone; and what was reserved behind it keeps its moment. Windows give back all permits
    ///   within the same window, logs and sub-windows as long as the entry counts.
    /// - Before the moment of a reservation for later, it comes back whole, in all limits, or not at all: if
    ///   [`keep`](Receipt::keep) left a part, or something is reserved behind it, nothing comes back.
    /// - Nothing comes back of another limiter's receipt, or if the clock has stepped back to before the
    ///   charge.
    /// - In memory, nothing comes back of charges from before a step back of the clock by which the debt of
    ///   some key became longer than its quota allows: a full debt then replaces that of the key, and
    ///   counts for what was charged before.
    /// - No key is lifted above a fresh one. A receipt may give back later charges of the key, at most its own permits,
    ///   after a reset, and after a store has lost the key or its clock has stepped back.
    fn refund(&self, receipt: Receipt) -> LimiterFuture<u64>;

    /// Makes `key` fresh.
    fn reset(&self, key: &Key<'_>) -> LimiterFuture<()>;

    /// Returns a handle on the same limiter that enforces `policy`: for tiers, for quotas of single
    /// customers, and for reloads. Limits with the same [identities](Policy::identities) share the states of their keys;
    /// under any other, a key begins fresh.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`](crate::ErrorKind::InvalidSetting) if the policy has other
    /// [families](Policy::families) than this limiter's states, or other names for several limits.
    fn with_policy(&self, policy: &Policy) -> Result<Arc<dyn Limiter>, Error>;

    /// Returns another limiter in the same store, of any algorithm, with the settings of this one and states of its own:
    /// for blocks, and for limits of other subjects that are [decided together](crate::decide) with this one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`](crate::ErrorKind::InvalidSetting) if the two limiters would have the same states in
    /// the store.
    fn sibling(&self, policy: &Policy) -> Result<Arc<dyn Limiter>, Error>;

    /// Returns a [`sibling`](Self::sibling) with room for `keys` keys, if the store allocates it in advance. The default,
    /// for other stores, is `sibling`.
    ///
    /// # Errors
    ///
    /// As [`sibling`](Self::sibling), and [`ErrorKind::InvalidSetting`](crate::ErrorKind::InvalidSetting) if the
    /// capacity is out of its range.
    fn sibling_with_capacity(
        &self,
        policy: &Policy,
        _keys: usize,
    ) -> Result<Arc<dyn Limiter>, Error> {
        self.sibling(policy)
    }
}

/// What [`decide`](crate::decide) needs to know of a [`Limiter`], and how its store decides on a list.
///
/// For who writes a limiter on a store of their own. Callers need none of it.
///
/// Only the first two methods have to be written. With them alone, demands are charged one after the other, and given
/// back if a later one is refused.
pub trait Store: Send + Sync {
    /// Returns which states this handle is on. All handles on them have the same id, which is made with the limiter.
    fn id(&self) -> LimiterId;

    /// Returns the limiter as its own type, so that [`decide_together`](Self::decide_together) can downcast the limiters
    /// of its demands: `self`. A limiter around another one may return that of the inner one.
    fn as_any(&self) -> &dyn Any;

    /// Returns the part of the store that has `key`: demands for keys in one part are
    /// [decided together](Self::decide_together). The default is 0, for a store with one part.
    fn shard(&self, _key: &Key<'_>) -> u64 {
        0
    }

    /// Returns whether [`check_n`](crate::Limiter::check_n) would admit `cost` now, with the wait of a refusal, and
    /// charges nothing. `None`, the default, if a limiter can't decide that without a call to its store.
    ///
    /// The usage is the present one: that of an admission is the one before the charge.
    fn preview(&self, _key: &Key<'_>, _cost: Cost) -> Option<Decision> {
        None
    }

    /// Charges all demands if all fit now, or none.
    ///
    /// All are for limiters of this limiter's [store](LimiterId::shares_store_with) and for keys of one of its
    /// [shards](Self::shard), there are 1 to 16, and no two are for one key of one limiter under one policy. `is_part` if
    /// other demands of the list are decided elsewhere, so that what is charged here may be given back at once. `None`, the default,
    /// if the store can't decide on them in one step: then they are [previewed](Self::preview), reserved one after the
    /// other, and refunded if one is refused.
    fn decide_together(
        &self,
        _demands: &[Demand<'_>],
        _is_part: bool,
    ) -> Option<LimiterFuture<JointDecision>> {
        None
    }
}

/// A cost for a key of a limiter: one of those that [`decide`](crate::decide) charges together.
///
/// ```
/// use limiter_core::{Cost, Demand, MemoryLimiter, Policy, Quota};
///
/// let requests = MemoryLimiter::new(Policy::gcra("requests", Quota::per_second(10)));
/// let tokens = MemoryLimiter::new(Policy::gcra("tokens", Quota::per_minute(10_000)));
/// let demands = [
///     Demand::new(&requests, "alice", Cost::ONE),
///     Demand::new(&tokens, "alice", Cost::of(1_200)),
/// ];
/// # let _ = demands;
/// ```
#[derive(Clone)]
pub struct Demand<'a> {
    limiter: &'a dyn Limiter,
    id: LimiterId,
    key: Key<'a>,
    cost: Cost,
    /// At most the cost, `None` if nothing is charged.
    charge: Option<Cost>,
    wants_receipt: bool,
    is_asked_once: bool,
}

/// The most demands of one decision.
pub(crate) const MAX_DEMANDS: usize = 16;

impl<'a> Demand<'a> {
    /// Returns the demand of `cost` for `key`.
    pub fn new(limiter: &'a dyn Limiter, key: impl Into<Key<'a>>, cost: Cost) -> Self {
        Self {
            limiter,
            id: limiter.id(),
            key: key.into(),
            cost,
            charge: Some(cost),
            wants_receipt: true,
            is_asked_once: false,
        }
    }

    /// Returns the demand that `cost` fits, which is never charged: for a block that other requests charge.
    ///
    /// An absent key always fits a cost up to the burst, also if a table in memory is full.
    pub fn only_ask(limiter: &'a dyn Limiter, key: impl Into<Key<'a>>, cost: Cost) -> Self {
        Self { charge: None, ..Self::new(limiter, key, cost) }
    }

    /// Returns the demand without a receipt, which limiters in memory then do not make: for a charge that is never refunded
    /// once all demands are admitted.
    #[must_use]
    pub const fn without_receipt(mut self) -> Self {
        self.wants_receipt = false;
        self
    }

    /// Returns the limiter that decides.
    #[must_use]
    pub const fn limiter(&self) -> &'a dyn Limiter {
        self.limiter
    }

    /// Returns the key that is charged.
    #[must_use]
    pub const fn key(&self) -> &Key<'a> {
        &self.key
    }

    /// Returns the permits that have to fit.
    #[must_use]
    pub const fn cost(&self) -> Cost {
        self.cost
    }

    /// Returns whether the demand is never charged.
    #[must_use]
    pub const fn only_asks(&self) -> bool {
        self.charge.is_none()
    }

    /// Returns the permits that are charged if all demands fit, `None` if the demand only asks. Less than the cost if a
    /// demand that only asks was merged with this one.
    #[must_use]
    pub const fn charge(&self) -> Option<Cost> {
        self.charge
    }

    /// Returns the demand, which only asks, as one that is the same if it is in a list twice: whether a key is blocked.
    pub(crate) const fn once(mut self) -> Self {
        self.is_asked_once = true;
        self
    }

    pub(crate) const fn wants_receipt(&self) -> bool {
        self.wants_receipt
    }

    /// Sets the permits that are charged.
    pub(crate) const fn charging(mut self, charge: Option<Cost>) -> Self {
        self.charge = charge;
        self
    }

    /// Returns the demand on another limiter.
    #[cfg(feature = "std")]
    pub(crate) fn on(self, limiter: &'a dyn Limiter) -> Self {
        Self { limiter, id: limiter.id(), ..self }
    }

    /// Returns whether both keys are in one shard of one store.
    pub(crate) fn shares_shard_with(&self, other: &Self) -> bool {
        let shard = |demand: &Self| demand.limiter.shard(&demand.key);
        self.id.shares_store_with(other.id) && shard(self) == shard(other)
    }

    /// Returns the decision that a limiter's [preview](Store::preview) means for this demand: to one that only
    /// asks, a key without a slot in a full table is an absent key.
    pub(crate) fn decision(&self, preview: Decision) -> Decision {
        if !self.only_asks() || preview.source() != Source::FullTable {
            return preview;
        }
        let burst = preview.burst();
        let fresh = Usage::new(burst, burst, Duration::ZERO);
        match self.cost.get() <= burst {
            true => Decision::admitted(fresh),
            false => Decision::refused(fresh, None),
        }
    }

    /// Adds the cost of another demand for the same key of the same limiter, unless both are [asked once](Self::once).
    pub(crate) fn join(&mut self, other: &Self) {
        if self.is_asked_once && other.is_asked_once {
            return;
        }
        self.cost = self.cost.saturating_add(other.cost);
        self.charge = match (self.charge, other.charge) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
        self.wants_receipt |= other.wants_receipt;
    }

    /// Returns whether both are for one key of one limiter under one policy, so that their costs add up.
    pub(crate) fn has_state_of(&self, other: &Self) -> bool {
        let is_of_one = self.id == other.id && self.key == other.key;
        is_of_one && self.limiter.policy() == other.limiter.policy()
    }
}

impl fmt::Debug for Demand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Demand")
            .field("policy", &self.limiter.policy().name())
            .field("key", &self.key)
            .field("cost", &self.cost)
            .field("charge", &self.charge)
            .finish_non_exhaustive()
    }
}

/// A limiter whose callers can wait for permits.
///
#[doc = include_str!("../docs/items/waiting-limiter.md")]
pub trait WaitingLimiter: Limiter {
    /// Charges `cost` to `key` as soon as it fits, up to `within` from now if that is given. If it
    /// will not fit by then, or never can, it is refused at once.
    ///
    /// The place in the queue is taken when the future is first polled. Waiters for one key through
    /// one limiter and its handles are served in that order, and while there are waiters,
    /// [`check`](Limiter::check) and [`reserve`](Limiter::reserve) are refused. A future that is
    /// dropped before it is ready gives its place back, and whatever was charged for it. The
    /// returned reservation has no delay left.
    ///
    /// A store may wait by [`reserve`](Limiter::reserve), and then refuses a wait beyond the horizon, for which a limiter
    /// in memory waits.
    ///
    /// It may have to be polled within the runtime that the limiter's timer or client belongs to.
    fn acquire(
        &self,
        key: &Key<'_>,
        cost: Cost,
        within: Option<Duration>,
    ) -> LimiterFuture<Reservation>;

    /// Returns [`with_policy`](Limiter::with_policy) as a limiter whose callers can wait.
    ///
    /// # Errors
    ///
    /// As [`with_policy`](Limiter::with_policy).
    fn waiting_with_policy(&self, policy: &Policy) -> Result<Arc<dyn WaitingLimiter>, Error>;
}
