//! Which algorithms apply which quotas, under a name.

mod kind;
mod share;

use alloc::{borrow::ToOwned, format, string::String, sync::Arc, vec, vec::Vec};
use core::mem;

pub use kind::Kind;

use crate::{
    Error, ErrorKind, Quota,
    algorithm::{Single, Slots, Start},
};

/// A named limit: which algorithm applies which quota. Or several such limits at once.
///
/// The name stands in response headers, in log lines and metrics, and in a shared store's keys:
/// two policies with the same name in one store share their state. A clone is cheap.
///
/// ```
/// use limiter_core::{Policy, Quota};
///
/// let policy = Policy::gcra("search", Quota::per_second(10)?)?
///     .with_tier(Policy::gcra("premium", Quota::per_second(100)?)?)?;
/// assert_eq!(policy.name(), "search");
/// assert_eq!(policy.tiers()[0].name(), "premium");
/// # Ok::<(), limiter_core::Error>(())
/// ```
///
/// Which algorithm when: see the [guide](crate::guide).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Policy(Arc<Inner>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Inner {
    name: String,
    /// From 1 to [`Policy::MAX_LIMITS`], by window, the shortest first, unless they were divided.
    limits: Vec<Limit>,
    /// All of the same shape: as many limits, of the same kinds.
    tiers: Vec<Policy>,
}

/// One limit of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    name: String,
    kind: Kind,
    quota: Quota,
}

impl Policy {
    /// The longest name, in bytes.
    pub const MAX_NAME: usize = 64;

    /// The most limits of one policy.
    pub const MAX_LIMITS: usize = 8;

    /// The most tiers of one policy, beside its own: each keeps an account of every key.
    pub const MAX_TIERS: usize = 15;

    /// Returns a policy that applies `quota` by the algorithm `kind`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`] if `name` is empty, longer than [`Policy::MAX_NAME`], or has a
    /// character that is not printable ASCII: a structured header field can't carry it
    /// (RFC 9651, section 3.3.3).
    ///
    /// [`ErrorKind::InvalidQuota`] if the algorithm can't apply the quota; its documentation says
    /// which it can.
    pub fn new(name: &str, kind: Kind, quota: Quota) -> Result<Self, Error> {
        validate_name(name)?;
        Single::new(kind, &quota)?;
        let limit = Limit { name: name.to_owned(), kind, quota };
        Ok(Self::of(name, vec![limit], Vec::new()))
    }

    /// Returns a policy that applies `quota` by GCRA, the generic cell rate algorithm: a burst at
    /// once, and then as much as the rate gives. The one to take where nothing speaks for another.
    ///
    /// The time for one permit is rounded up, in memory to a sixteenth of a nanosecond: three a
    /// second are back a nanosecond after the second.
    ///
    /// # Errors
    ///
    /// As [`Policy::new`].
    pub fn gcra(name: &str, quota: Quota) -> Result<Self, Error> {
        Self::new(name, Kind::Gcra, quota)
    }

    /// Returns a policy with a bucket of `capacity` tokens that is refilled at the rate of `refill`.
    ///
    /// # Errors
    ///
    /// As [`Policy::new`] and [`Quota::with_burst`].
    pub fn token_bucket(name: &str, capacity: u64, refill: Quota) -> Result<Self, Error> {
        Self::new(name, Kind::TokenBucket, refill.with_burst(capacity)?)
    }

    /// Returns a policy with a bucket that leaks at the rate of `leak`, and refuses what would
    /// raise its level above `capacity`.
    ///
    /// # Errors
    ///
    /// As [`Policy::new`] and [`Quota::with_burst`].
    pub fn leaky_bucket(name: &str, capacity: u64, leak: Quota) -> Result<Self, Error> {
        Self::new(name, Kind::LeakyBucket, leak.with_burst(capacity)?)
    }

    /// Returns a policy with a queue: the burst of `outflow` passes at once, further permits are
    /// given out evenly at its rate, and no more than `depth` of them wait.
    ///
    /// Those that wait are told for how long by `reserve`, or wait in `acquire`; `try_acquire`
    /// never waits, and so takes only what passes at once.
    ///
    /// # Errors
    ///
    /// As [`Policy::new`].
    pub fn leaky_queue(name: &str, depth: u64, outflow: Quota) -> Result<Self, Error> {
        Self::new(name, Kind::LeakyQueue { depth }, outflow)
    }

    /// Returns a policy with a counter that starts anew with each window, the window starting with
    /// the first permit that is taken. For windows that start by the clock, see [`Start::Aligned`].
    ///
    /// # Errors
    ///
    /// As [`Policy::new`].
    pub fn fixed_window(name: &str, quota: Quota) -> Result<Self, Error> {
        Self::new(name, Kind::FixedWindow(Start::FirstUse), quota)
    }

    /// Returns a policy with a window that slides slot by slot.
    ///
    /// # Errors
    ///
    /// As [`Policy::new`].
    pub fn sub_windows(name: &str, quota: Quota, slots: Slots) -> Result<Self, Error> {
        Self::new(name, Kind::SubWindows(slots), quota)
    }

    /// Returns a policy with a window that slides by an estimate from two counters.
    ///
    /// # Errors
    ///
    /// As [`Policy::new`].
    pub fn sliding_counter(name: &str, quota: Quota) -> Result<Self, Error> {
        Self::new(name, Kind::SlidingCounter, quota)
    }

    /// Returns a policy with a window that slides exactly, by a log of all permits.
    ///
    /// # Errors
    ///
    /// As [`Policy::new`].
    pub fn sliding_log(name: &str, quota: Quota) -> Result<Self, Error> {
        Self::new(name, Kind::SlidingLog, quota)
    }

    /// Returns a policy that applies several limits at once, each by its own algorithm: a cost is
    /// charged to all of them, or to none.
    ///
    /// ```
    /// use limiter_core::{Policy, Quota};
    ///
    /// let policy = Policy::several("api", [
    ///     Policy::gcra("burst", Quota::per_second(10)?)?,
    ///     Policy::gcra("hourly", Quota::per_hour(1_000)?)?,
    /// ])?;
    /// assert_eq!(policy.limits()[1].name(), "hourly");
    /// # Ok::<(), limiter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`] as [`Policy::new`], or if two limits have the same name.
    ///
    /// [`ErrorKind::InvalidSetting`] if there are none or more than [`Policy::MAX_LIMITS`], if one
    /// of `policies` has several limits or tiers itself, if two are paced, whose slots might never
    /// agree, or if one can never be the one that refuses: a shorter window needs fewer permits than
    /// a longer one.
    pub fn several(name: &str, policies: impl IntoIterator<Item = Self>) -> Result<Self, Error> {
        validate_name(name)?;
        let mut limits = Vec::new();
        for policy in policies {
            if policy.limits().len() > 1 || !policy.tiers().is_empty() {
                return Err(invalid(format!(
                    "the policy {:?} within {name:?} has several limits or tiers itself: give \
                     its limits one by one, and the tiers to {name:?}",
                    policy.name()
                )));
            }
            limits.extend(policy.limits().iter().cloned());
        }
        if limits.is_empty() || limits.len() > Self::MAX_LIMITS {
            let (number, most) = (limits.len(), Self::MAX_LIMITS);
            return Err(invalid(format!(
                "the policy {name:?} of {number} limits: use 1 to {most}"
            )));
        }
        let paced =
            |limit: &&Limit| matches!(limit.kind, Kind::SubWindows(slots) if slots.is_paced());
        if limits.iter().filter(paced).count() > 1 {
            return Err(invalid(format!(
                "the policy {name:?} has more than one paced limit: their slots might never agree"
            )));
        }
        limits.sort_by_key(|limit| limit.quota.window());
        for (index, longer) in limits.iter().enumerate() {
            for shorter in limits.iter().take(index) {
                if shorter.name == longer.name {
                    let message = format!("the policy {name:?} has two limits {:?}", longer.name);
                    return Err(Error::new(ErrorKind::InvalidName, message));
                }
                let same_window = shorter.quota.window() == longer.quota.window();
                if same_window || shorter.quota.permits() >= longer.quota.permits() {
                    return Err(invalid(format!(
                        "the policy {name:?} limits to {} ({:?}) and to {} ({:?}): a shorter \
                         window needs fewer permits than a longer one, else one of the two never \
                         refuses",
                        shorter.quota, shorter.name, longer.quota, longer.name
                    )));
                }
            }
        }
        Ok(Self::of(name, limits, Vec::new()))
    }

    /// Adds another tier: the same limits with other quotas, for some of the keys.
    ///
    /// What a key takes by one tier is taken from all: a key that changes its tier keeps its debt.
    /// See [`MemoryLimiter::tier`](crate::MemoryLimiter::tier).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`] if the policy or one of its tiers has the tier's name.
    ///
    /// [`ErrorKind::InvalidSetting`] if the tier has tiers itself, other kinds of limits than the
    /// policy or other names of several, or is one more than [`Policy::MAX_TIERS`].
    pub fn with_tier(self, tier: Self) -> Result<Self, Error> {
        let name = self.name();
        if name == tier.name() || self.tier_index(tier.name()).is_some() {
            let message = format!("the policy {name:?} has the tier {:?} already", tier.name());
            return Err(Error::new(ErrorKind::InvalidName, message));
        }
        if !tier.tiers().is_empty() {
            let message = format!("the tier {:?} of {name:?} has tiers itself", tier.name());
            return Err(invalid(message));
        }
        self.same_shape(&tier)?;
        if self.tiers().len() == Self::MAX_TIERS {
            let most = Self::MAX_TIERS;
            return Err(invalid(format!(
                "the policy {name:?} has {most} tiers, the most there are"
            )));
        }
        let mut inner = Arc::unwrap_or_clone(self.0);
        inner.tiers.push(tier);
        Ok(Self(Arc::new(inner)))
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the limits, from 1 to [`Policy::MAX_LIMITS`], by window, the shortest first: those of
    /// [`Policy::shared_among`] in the order that they had before.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        &self.0.limits
    }

    /// Returns the other tiers.
    #[must_use]
    pub fn tiers(&self) -> &[Self] {
        &self.0.tiers
    }

    pub(crate) fn tier_index(&self, name: &str) -> Option<usize> {
        self.tiers().iter().position(|tier| tier.name() == name)
    }

    /// Checks that `other` can take over the states of this policy: it has as many limits, of the
    /// same kinds, and of the same names where there are several.
    pub(crate) fn same_shape(&self, other: &Self) -> Result<(), Error> {
        let several = self.limits().len() > 1;
        let same_kind = |one: &Limit, other: &Limit| match (one.kind, other.kind) {
            (Kind::FixedWindow(one), Kind::FixedWindow(other)) => one == other,
            (one, other) => mem::discriminant(&one) == mem::discriminant(&other),
        };
        let mut pairs = self.limits().iter().zip(other.limits());
        let same =
            pairs.all(|(one, other)| same_kind(one, other) && (!several || one.name == other.name));
        if self.limits().len() == other.limits().len() && same {
            return Ok(());
        }
        let kinds = |policy: &Self| {
            let kind = |limit: &Limit| match several {
                true => format!("{} ({:?})", limit.kind, limit.name),
                false => format!("{}", limit.kind),
            };
            policy.limits().iter().map(kind).collect::<Vec<_>>().join(" and ")
        };
        Err(invalid(format!(
            "{:?} limits by {}, and {:?} by {}: a key's state can't serve both",
            self.name(),
            kinds(self),
            other.name(),
            kinds(other)
        )))
    }

    /// Returns `new` with its tiers in the order of this one's, if it can take over this policy's
    /// states: for a store that replaces a policy live.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] if it has other kinds of limits, or lacks one of the tiers.
    pub fn replaced_by(&self, new: Self) -> Result<Self, Error> {
        self.same_shape(&new)?;
        let mut tiers = new.tiers().to_vec();
        for (index, old) in self.tiers().iter().enumerate() {
            let Some(found) = tiers.iter().position(|tier| tier.name() == old.name()) else {
                return Err(invalid(format!(
                    "the policy {:?} has no tier {:?}, which the one before it has",
                    new.name(),
                    old.name()
                )));
            };
            tiers.swap(index, found);
        }
        Ok(Self::of(new.name(), new.limits().to_vec(), tiers))
    }

    fn of(name: &str, limits: Vec<Limit>, tiers: Vec<Self>) -> Self {
        Self(Arc::new(Inner { name: name.to_owned(), limits, tiers }))
    }
}

impl Limit {
    /// Returns the name: the policy's own, where it has but one limit.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the algorithm.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the quota.
    #[must_use]
    pub const fn quota(&self) -> &Quota {
        &self.quota
    }
}

fn validate_name(name: &str) -> Result<(), Error> {
    let fault = if name.is_empty() {
        "it is empty"
    } else if name.len() > Policy::MAX_NAME {
        "it is longer than 64 bytes"
    } else if !name.bytes().all(|byte| matches!(byte, 0x20..=0x7e)) {
        "only printable ASCII can stand in a header field"
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::InvalidName, format!("the policy name {name:?}: {fault}")))
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidSetting, message)
}
