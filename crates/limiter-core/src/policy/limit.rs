//! One limit of a policy.

use alloc::{
    borrow::ToOwned,
    format,
    string::{String, ToString},
};
use core::time::Duration;

use crate::{Algorithm, Error, ErrorKind, Quota, error::excerpt, ticks};

/// One limit of a policy: a quota, its algorithm and its horizon.
///
/// Prints as [`Policy::parse`](crate::Policy::parse) reads it, without its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    name: String,
    algorithm: Algorithm,
    quota: Quota,
    /// `None` for the default.
    pub(crate) own_horizon: Option<Duration>,
}

impl Limit {
    pub(super) const SHORTEST_DEFAULT_HORIZON: Duration = Duration::from_secs(60);

    /// Returns a limit whose name has not been checked, with the default horizon.
    pub(crate) fn new(name: &str, algorithm: Algorithm, quota: Quota) -> Result<Self, Error> {
        Self::unchecked(name, algorithm, quota).checked()
    }

    /// Returns a limit with the default horizon, which may be too long for its quota. Nothing has been checked.
    pub(crate) fn unchecked(name: &str, algorithm: Algorithm, quota: Quota) -> Self {
        Self { name: name.to_owned(), algorithm, quota, own_horizon: None }
    }

    /// Returns the name: the policy's own if it has only this limit.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn rename(&mut self, name: &str) {
        name.clone_into(&mut self.name);
    }

    /// Returns the algorithm.
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns the quota.
    #[must_use]
    pub const fn quota(&self) -> &Quota {
        &self.quota
    }

    /// Returns how far ahead permits may be promised.
    #[must_use]
    pub fn horizon(&self) -> Duration {
        self.horizon_by(|permits| self.of_permits(permits))
    }

    /// Returns the horizon by the time in which permits recover: exactly, or rounded up, as they are promised one by one.
    pub(super) fn horizon_by(&self, recovery: impl Fn(u64) -> Duration) -> Duration {
        match (self.own_horizon, self.algorithm) {
            (Some(horizon), _) => horizon,
            (None, Algorithm::LeakyQueue { depth }) => recovery(depth),
            (None, Algorithm::SubWindows(_)) => self.default_horizon(),
            (None, _) => recovery(self.quota.burst()).max(Self::SHORTEST_DEFAULT_HORIZON),
        }
    }

    /// Returns how many entries a key's state may have: those of a window, and as many that are promised for
    /// later.
    #[cfg(feature = "std")]
    pub(crate) fn most_entries(&self) -> usize {
        let in_window = match self.algorithm {
            Algorithm::SlidingLog => self.quota.permits(),
            Algorithm::SubWindows(slots) => self.quota.permits().min(u64::from(slots.number()) + 1),
            _ => 0,
        };
        usize::try_from(in_window).unwrap_or(usize::MAX).saturating_mul(2)
    }

    /// Returns the limit with another algorithm and quota, and its own horizon: that of a queue is its
    /// depth.
    pub(crate) fn with_quota(&self, algorithm: Algorithm, quota: Quota) -> Result<Self, Error> {
        let is_queue = matches!(algorithm, Algorithm::LeakyQueue { .. });
        let own_horizon = self.own_horizon.filter(|_| !is_queue);
        Self { name: self.name.clone(), algorithm, quota, own_horizon }.checked()
    }

    /// Returns the algorithm and the quota with so many percent of the permits, in the same proportions.
    pub(super) fn scaled(&self, percent: u32) -> Result<(Algorithm, Quota), Error> {
        const fn gcd(one: u64, other: u64) -> u64 {
            if other == 0 { one } else { gcd(other, one % other) }
        }
        let quota = &self.quota;
        let depth = if let Algorithm::LeakyQueue { depth } = self.algorithm { depth } else { 0 };
        let parts = gcd(gcd(quota.permits(), quota.burst()), depth);
        let scaled = u128::from(parts) * u128::from(percent) / 100;
        let scaled = ticks::whole(scaled.max(1));
        let of = |number: u64| (number / parts).saturating_mul(scaled);
        let algorithm = match self.algorithm {
            Algorithm::LeakyQueue { depth } => Algorithm::LeakyQueue { depth: of(depth) },
            algorithm => algorithm,
        };
        let scaled = Quota::new(of(quota.permits()), quota.window())?;
        Ok((algorithm, scaled.try_with_burst(of(quota.burst()))?))
    }

    /// Sets the horizon, which errors quote as `given`.
    pub(crate) fn with_horizon(&self, horizon: Duration, given: &str) -> Result<Self, Error> {
        let fault = if matches!(self.algorithm, Algorithm::LeakyQueue { .. }) {
            "the depth of a leaky queue is its horizon; set the depth"
        } else if horizon > Quota::MAX_RECOVERY {
            "use at most 1,830 days"
        } else if !horizon.subsec_nanos().is_multiple_of(1_000_000) {
            "use a whole number of milliseconds"
        } else {
            return Self { own_horizon: Some(horizon), ..self.clone() }.checked();
        };
        let (given, name) = (excerpt(given), excerpt(&self.name));
        let message = format!("invalid horizon {given:?} for {name:?}: {fault}");
        Err(Error::new(ErrorKind::InvalidSetting, message))
    }

    /// Returns whether whole microseconds would change the rate by a thousandth or more.
    fn counts_finely(&self) -> bool {
        let (window, permits) = (self.quota.window().as_micros(), u128::from(self.quota.permits()));
        let lost = window.div_ceil(permits) * permits - window;
        lost * 1_000 >= window
    }

    /// Returns the time in which so many permits recover, rounded up.
    fn of_permits(&self, permits: u64) -> Duration {
        if matches!(self.algorithm, Algorithm::Gcra | Algorithm::LeakyQueue { .. }) {
            return ticks::of_permits(&self.quota, permits);
        }
        self.exactly(permits)
    }

    /// Returns the limit, if its algorithm can serve its quota.
    fn checked(self) -> Result<Self, Error> {
        let quota = &self.quota;
        let has_own_burst = quota.burst() != quota.permits();
        let fault = match self.algorithm {
            Algorithm::LeakyQueue { depth } if self.horizon() > Quota::MAX_RECOVERY => {
                &format!("a depth of {depth} takes longer than 1,830 days; lower it")
            }
            Algorithm::Gcra | Algorithm::LeakyQueue { .. } => {
                // Redis counts fractions of a microsecond in doubles.
                let reach = self.of_permits(quota.burst()).saturating_add(self.horizon());
                if !self.counts_finely() || reach <= Duration::from_secs(10 * 86_400) {
                    return Ok(self);
                }
                "a permit takes no whole number of microseconds, so the burst and the horizon \
                 together must recover within 10 days; set a smaller burst or a shorter horizon"
            }
            algorithm if has_own_burst => {
                &format!("{} has no burst of its own; leave the burst out", algorithm.family())
            }
            // Redis multiplies a count by a time in doubles.
            Algorithm::SlidingCounter if quota.permits() > 50_000_000 => {
                "a sliding counter counts at most 50,000,000 permits; use sub-windows"
            }
            // Each permit may be an entry of 16 bytes.
            Algorithm::SlidingLog if quota.permits() > 1_000_000 => {
                "a log holds at most 1,000,000 permits; use sub-windows"
            }
            Algorithm::SubWindows(slots) if !slots.can_cut(quota.window()) => {
                &format!("its window can't be cut into {slots}; use fewer")
            }
            Algorithm::FixedWindow
            | Algorithm::AlignedWindow
            | Algorithm::SlidingCounter
            | Algorithm::SlidingLog
            | Algorithm::SubWindows(_) => return Ok(self),
        };
        Err(Error::invalid(ErrorKind::InvalidQuota, "quota", &quota.to_string(), fault))
    }

    /// Checks that a policy can have both limits.
    pub(super) fn fits_beside(&self, other: &Self, policy: &str) -> Result<(), Error> {
        let (one, two) = (&other.name, &self.name);
        let (kind, fault) = if one == two {
            (ErrorKind::InvalidName, format!("two limits are named {two:?}; rename one"))
        } else if self.is_paced() && other.is_paced() {
            let fault = "are paced; their slots might never agree; pace one";
            (ErrorKind::InvalidSetting, format!("{one:?} and {two:?} {fault}"))
        } else {
            return Ok(());
        };
        Err(Error::invalid(kind, "policy", policy, fault))
    }

    /// Checks that the limit adds something to another one of its policy.
    pub(super) fn differs_from(&self, other: &Self, policy: &str) -> Result<(), Error> {
        if (self.algorithm, self.quota) != (other.algorithm, other.quota) {
            return Ok(());
        }
        let (one, two) = (&other.name, &self.name);
        let fault = format!("{one:?} and {two:?} are the same limit ({self}); leave one out");
        Err(Error::invalid(ErrorKind::InvalidSetting, "policy", policy, fault))
    }

    /// Checks that the limit is small enough to be one of several.
    pub(super) fn fits_among_several(&self) -> Result<(), Error> {
        const MAX_ENTRIES: u64 = 1_000;
        let (size, remedy) = match self.algorithm {
            Algorithm::SlidingLog => (self.quota.permits(), "use at most 1,000 permits"),
            Algorithm::SubWindows(slots) => (slots.number().into(), "use at most 1,000 slots"),
            Algorithm::Gcra
            | Algorithm::LeakyQueue { .. }
            | Algorithm::FixedWindow
            | Algorithm::AlignedWindow
            | Algorithm::SlidingCounter => return Ok(()),
        };
        if size <= MAX_ENTRIES {
            return Ok(());
        }
        let family = self.algorithm.family();
        let fault = format!("as one of several limits, {family} is limited; {remedy}");
        Err(Error::invalid(ErrorKind::InvalidQuota, "quota", &self.quota.to_string(), fault))
    }

    const fn is_paced(&self) -> bool {
        matches!(self.algorithm, Algorithm::SubWindows(slots) if slots.is_paced())
    }
}

/// Checks the name of a policy or a limit, whichever `what` is.
pub(crate) fn validate_name(what: &str, name: &str) -> Result<(), Error> {
    let fault = if name.is_empty() {
        "use at least one character"
    } else if name.len() > 64 {
        "use at most 64 bytes"
    } else if !name.bytes().all(|byte| matches!(byte, 0x20..=0x7e)) {
        "use printable ASCII only"
    } else {
        return Ok(());
    };
    Err(Error::invalid(ErrorKind::InvalidName, &format!("{what} name"), name, fault))
}
