//! Which algorithm applies which quota, under a name.

mod changes;
mod identity;
mod limit;

use alloc::{borrow::ToOwned, format, string::String, sync::Arc, vec, vec::Vec};
use core::time::Duration;

use identity::identity;
pub use limit::Limit;
pub(crate) use limit::validate_name;

use crate::{
    Algorithm, Error, ErrorKind, Quota, Slots, algorithms::AnyTransition, decision::MAX_LIMITS,
};

/// A named limit: which algorithm applies which quota. Or several such limits at once.
///
/// Response headers, log lines and metrics carry the name. In a store that processes share, the name
/// of the policy that a limiter was built with finds its states, so two limiters with one name share
/// them. A clone is cheap.
///
/// ```
/// use limiter_core::{Algorithm, Policy, Quota};
///
/// let search = Policy::gcra("search", Quota::per_second(10));
/// assert_eq!(search.limits()[0].algorithm(), Algorithm::Gcra);
/// ```
///
/// # Horizon
///
/// A limit's horizon is how far ahead it promises permits to `reserve`. The default is the time in
/// which a full burst recovers, or the window, and at least one minute; strict sub-windows add a slot, and a leaky queue's
/// horizon is its depth. After a step back of the clock, or a corrupt value, a key waits at most for its
/// recovery and the horizon.
///
/// Which algorithm to choose: see the [guide](crate::guide).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Policy(Arc<Inner>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Inner {
    name: String,
    /// From 1 to [`Policy::MAX_LIMITS`].
    limits: Vec<Limit>,
    /// Of each limit, in their order.
    identities: Vec<String>,
    /// Whether they were set, and are not those of the limits.
    has_own_identity: bool,
    /// Of each limit, in their order.
    transitions: Vec<AnyTransition>,
}

impl Policy {
    /// The most limits of one policy.
    pub const MAX_LIMITS: usize = MAX_LIMITS;

    /// Returns a policy that applies `quota` by `algorithm`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`] if `name` is empty, longer than 64 bytes, or has a character that is
    /// not printable ASCII, which a structured header field can't carry (RFC 9651, section 3.3.3).
    ///
    /// [`ErrorKind::InvalidQuota`] if the algorithm can't serve the quota: a window whose burst
    /// differs from its permits; a sliding counter of more than 50,000,000 permits; a log of more
    /// than 1,000,000 permits; slots that would be rounded up by more than a thousandth; a queue
    /// whose depth takes longer than [`Quota::MAX_RECOVERY`]; a rate whose permits take no whole number
    /// of microseconds, if its burst and its horizon take longer than 10 days together, for which
    /// [`Policy::parse`] reads a shorter horizon.
    pub fn new(name: &str, algorithm: Algorithm, quota: Quota) -> Result<Self, Error> {
        Self::from_limits(name, vec![Limit::new(name, algorithm, quota)?])
    }

    /// Returns a policy that applies the limits of all `policies` at once, each by its own algorithm: a
    /// cost is charged to all of them, or to none. In a limiter's states, a limit is known by its name.
    ///
    /// ```
    /// use limiter_core::{Policy, Quota};
    ///
    /// let policy = Policy::all_of("api", [
    ///     Policy::gcra("burst", Quota::per_second(10)),
    ///     Policy::gcra("hourly", Quota::per_hour(1_000)),
    /// ])?;
    /// assert_eq!(policy.limits()[1].name(), "hourly");
    /// # Ok::<(), limiter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`] as [`Policy::new`], or if two limits have the same name.
    ///
    /// [`ErrorKind::InvalidSetting`] if there are no limits or more than [`Policy::MAX_LIMITS`], if two
    /// have the same algorithm and quota, or if two are paced, whose slots might never agree.
    ///
    /// [`ErrorKind::InvalidQuota`] if a log has more than 1,000 permits, or sub-windows more than
    /// 1,000 slots, because the states of several limits are read and written as one.
    pub fn all_of(name: &str, policies: impl IntoIterator<Item = Self>) -> Result<Self, Error> {
        let limits = policies.into_iter().flat_map(|policy| policy.limits().to_vec());
        Self::from_limits(name, limits.collect())
    }

    /// Sets how far ahead the policy's limits promise permits.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] if `horizon` is not a whole number of milliseconds up to
    /// [`Quota::MAX_RECOVERY`], or if a limit is a leaky queue, whose depth is its horizon.
    ///
    /// [`ErrorKind::InvalidQuota`] if a permit takes no whole number of microseconds, and the burst and
    /// the horizon take longer than 10 days together.
    pub fn with_horizon(self, horizon: Duration) -> Result<Self, Error> {
        let given = format!("{horizon:?}");
        let limits = self.limits().iter().map(|limit| limit.with_horizon(horizon, &given));
        Ok(Self::of(self.name(), limits.collect::<Result<_, _>>()?))
    }

    /// Returns the policy under another name, which its only limit has as well. Limits of several keep theirs.
    ///
    /// ```
    /// use limiter_core::{Policy, Quota};
    ///
    /// let stored = Policy::gcra("api-v1", Quota::per_minute(60));
    /// let shown = stored.renamed("api")?;
    /// assert_eq!((shown.name(), shown.limits()[0].name()), ("api", "api"));
    /// assert_eq!(shown.identities(), stored.identities());
    /// # Ok::<(), limiter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`] as [`Policy::new`].
    pub fn renamed(&self, name: &str) -> Result<Self, Error> {
        let mut limits = self.limits().to_vec();
        if let [only] = &mut *limits {
            only.rename(name);
        }
        Self::checked(name, limits)
    }

    /// Returns the policy with other algorithms and quotas for its limits, such as the share of one of several
    /// processes. Limits keep their names and, unless they become leaky queues, the horizons that were set.
    ///
    /// # Errors
    ///
    /// Those of `quota`, and those of [`Policy::all_of`], except that two limits may become the same.
    pub fn with_quotas(
        &self,
        quota: impl Fn(&Limit) -> Result<(Algorithm, Quota), Error>,
    ) -> Result<Self, Error> {
        let limits = self.limits().iter().map(|limit| {
            let (algorithm, quota) = quota(limit)?;
            limit.with_quota(algorithm, quota)
        });
        let policy = Self::checked(self.name(), limits.collect::<Result<_, _>>()?)?;
        Ok(match self.identities() {
            [identity] if self.0.has_own_identity => policy.with_identity(identity),
            _ => policy,
        })
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the limits, from 1 to [`Policy::MAX_LIMITS`], in the order of their names, so that a limit
    /// keeps its place whatever its quota is.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        &self.0.limits
    }

    /// Returns the [families](Algorithm::family) of the limits' algorithms, in order, joined by `+`.
    ///
    /// Policies with the same families can take turns on one limiter's states, if they have the same names
    /// for several limits.
    #[must_use]
    pub fn families(&self) -> String {
        let families = self.limits().iter().map(|limit| limit.algorithm().family());
        families.collect::<Vec<_>>().join("+")
    }

    /// Returns the [algorithm as a pure function](crate::algorithms) of each limit, in the order of the limits.
    #[must_use]
    pub fn transitions(&self) -> &[AnyTransition] {
        &self.0.transitions
    }

    /// Checks that `other` can take turns with this policy on one limiter's states: that both have one
    /// limit of the same [family](Algorithm::family), or several of the same names and families, because
    /// a state belongs to the limit of its name.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] if it can't.
    pub fn check_families(&self, other: &Self) -> Result<(), Error> {
        let (limits, others) = (self.limits(), other.limits());
        // A single limit may have the name of its policy, such as a tier's.
        let are_named = limits.len() > 1;
        let is_same = |(one, other): (&Limit, &Limit)| {
            one.algorithm().family() == other.algorithm().family()
                && (!are_named || one.name() == other.name())
        };
        if limits.len() == others.len() && limits.iter().zip(others).all(is_same) {
            return Ok(());
        }
        let (own, others) = (families_and_names(limits), families_and_names(others));
        let fault = format!(
            "it limits by {others}, and the states of {:?} are by {own}; use the same algorithms, and \
             the same names for several limits",
            self.name()
        );
        Err(Error::invalid(ErrorKind::InvalidSetting, "policy", other.name(), fault))
    }

    pub(crate) fn reads_unix_time(&self) -> bool {
        self.limits().iter().any(|limit| limit.algorithm() == Algorithm::AlignedWindow)
    }

    /// Returns a policy of these limits, as [`Policy::all_of`] does.
    pub(crate) fn from_limits(name: &str, limits: Vec<Limit>) -> Result<Self, Error> {
        let policy = Self::checked(name, limits)?;
        for (index, limit) in policy.limits().iter().enumerate() {
            let mut others = policy.limits().iter().take(index);
            others.try_for_each(|other| limit.differs_from(other, name))?;
        }
        Ok(policy)
    }

    /// Returns a policy of these limits. Two of them may be the same.
    fn checked(name: &str, mut limits: Vec<Limit>) -> Result<Self, Error> {
        validate_name("policy", name)?;
        if limits.is_empty() || limits.len() > Self::MAX_LIMITS {
            let fault = format!("it has {} limits; use 1 to {}", limits.len(), Self::MAX_LIMITS);
            return Err(Error::invalid(ErrorKind::InvalidSetting, "policy", name, fault));
        }
        limits.sort_by(|one, other| one.name().cmp(other.name()));
        for (index, limit) in limits.iter().enumerate() {
            validate_name("limit", limit.name())?;
            limits.iter().take(index).try_for_each(|other| limit.fits_beside(other, name))?;
            if limits.len() > 1 {
                limit.fits_among_several()?;
            }
        }
        Ok(Self::of(name, limits))
    }

    /// Returns the policy, of one limit, with another identity, so that its states in memory are those of other spans. It
    /// keeps the identity under other quotas, such as those of a share.
    /// The horizon has to be as long as the longest of these spans.
    pub(crate) fn with_identity(self, identity: &str) -> Self {
        let mut inner = Inner::clone(&self.0);
        inner.identities = vec![identity.to_owned()];
        inner.has_own_identity = true;
        Self(Arc::new(inner))
    }

    fn of(name: &str, limits: Vec<Limit>) -> Self {
        let transition =
            |limit: &Limit| AnyTransition::new(limit.algorithm(), limit.quota(), limit.horizon());
        let transitions = limits.iter().map(transition).collect();
        // The only limit has no name of its own.
        let of_one = limits.first().filter(|_| limits.len() == 1).map(Limit::name);
        let identities =
            limits.iter().map(|limit| identity(limit, of_one.unwrap_or(name))).collect();
        let name = name.to_owned();
        Self(Arc::new(Inner { name, limits, identities, has_own_identity: false, transitions }))
    }
}

/// Returns the family of each limit, with the names of several.
fn families_and_names(limits: &[Limit]) -> String {
    let described = limits.iter().map(|limit| match (limits.len(), limit.algorithm().family()) {
        (1, family) => family.to_owned(),
        (_, family) => format!("{family} ({:?})", limit.name()),
    });
    described.collect::<Vec<_>>().join(" and ")
}

/// Constructors for constants, without `?`. For values from outside the program, use [`Policy::new`]
/// or [`Policy::parse`].
impl Policy {
    /// Returns a policy by GCRA, the generic cell rate algorithm: a burst at once, then permits at the
    /// quota's rate. The default choice.
    ///
    /// # Panics
    ///
    /// If the name is invalid: see [`Policy::new`].
    #[must_use]
    #[track_caller]
    pub fn gcra(name: &str, quota: Quota) -> Self {
        Self::served(name, Algorithm::Gcra, quota)
    }

    /// Returns a policy with a bucket of `capacity` tokens, refilled at the rate of `refill`: GCRA
    /// with a burst of `capacity`.
    ///
    /// # Panics
    ///
    /// If the name is invalid, if `capacity` is zero or takes too long to refill
    /// ([`Quota::with_burst`]), or if `refill` has another burst of its own.
    #[must_use]
    #[track_caller]
    pub fn token_bucket(name: &str, capacity: u64, refill: Quota) -> Self {
        let has_own_burst = refill.burst() != refill.permits() && refill.burst() != capacity;
        assert!(
            !has_own_burst,
            "invalid quota \"{refill}\": the capacity, {capacity}, is the burst; leave the burst out"
        );
        Self::gcra(name, refill.with_burst(capacity))
    }

    /// Returns a policy with a bucket that leaks at the rate of `leak` and refuses what would raise its
    /// level above `capacity`: GCRA with a burst of `capacity`.
    /// Panics as [`Policy::token_bucket`] does.
    #[must_use]
    #[doc(alias = "leaky_meter")]
    #[track_caller]
    pub fn leaky_bucket(name: &str, capacity: u64, leak: Quota) -> Self {
        Self::token_bucket(name, capacity, leak)
    }

    /// Returns a policy with a queue: the burst of `outflow` passes at once, further permits are
    /// spaced evenly at its rate, and at most `depth` of them wait.
    ///
    /// `reserve` returns the delay, and `acquire` waits. `check` never waits, so it admits only what
    /// passes at once. For a steady outflow, use a burst of 1.
    ///
    /// # Panics
    ///
    /// If the name is invalid, or if `depth` permits take longer than [`Quota::MAX_RECOVERY`].
    #[must_use]
    #[track_caller]
    pub fn leaky_queue(name: &str, depth: u64, outflow: Quota) -> Self {
        Self::served(name, Algorithm::LeakyQueue { depth }, outflow)
    }

    /// Returns a policy with a counter that starts anew with each window. A window opens with the
    /// first permit that is taken in it.
    ///
    /// # Panics
    ///
    /// If the name is invalid, or if the quota has a burst of its own.
    #[must_use]
    #[track_caller]
    pub fn fixed_window(name: &str, quota: Quota) -> Self {
        Self::served(name, Algorithm::FixedWindow, quota)
    }

    /// Returns a policy with a counter that starts anew with each window. Windows open at multiples
    /// of their length since the Unix epoch: a minute at second 0, a day at 0:00 UTC.
    /// Panics as [`Policy::fixed_window`] does.
    #[must_use]
    #[track_caller]
    pub fn aligned_window(name: &str, quota: Quota) -> Self {
        Self::served(name, Algorithm::AlignedWindow, quota)
    }

    /// Returns a policy with a window that slides slot by slot. Panics as [`Policy::fixed_window`]
    /// does, or if the window can't be cut into so many slots.
    #[must_use]
    #[track_caller]
    pub fn sub_windows(name: &str, quota: Quota, slots: Slots) -> Self {
        Self::served(name, Algorithm::SubWindows(slots), quota)
    }

    /// Returns a policy with a window that slides by an estimate from two counters. Panics as
    /// [`Policy::fixed_window`] does, or if the quota has more than 50,000,000 permits.
    #[must_use]
    #[track_caller]
    pub fn sliding_counter(name: &str, quota: Quota) -> Self {
        Self::served(name, Algorithm::SlidingCounter, quota)
    }

    /// Returns a policy with a window that slides exactly, by a log of all permits. Panics as
    /// [`Policy::fixed_window`] does, or if the quota has more than 1,000,000 permits.
    #[must_use]
    #[track_caller]
    pub fn sliding_log(name: &str, quota: Quota) -> Self {
        Self::served(name, Algorithm::SlidingLog, quota)
    }

    #[expect(clippy::panic, reason = "documented: a constant that can't be served")]
    #[track_caller]
    fn served(name: &str, algorithm: Algorithm, quota: Quota) -> Self {
        // No closure: a panic in it would name its own line.
        match Self::new(name, algorithm, quota) {
            Ok(policy) => policy,
            Err(error) => panic!("{error}"),
        }
    }
}
