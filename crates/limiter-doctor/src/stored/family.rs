//! The families of stored keys: the names of the forms, and their versions.

use limiter_core::Algorithm;
use limiter_redis::IN_FLIGHT;

/// A form in which states are stored, as this version of the library writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// GCRA and its other names.
    Gcra,
    /// Fixed windows.
    FixedWindow,
    /// Aligned windows.
    AlignedWindow,
    /// The sliding counter.
    SlidingCounter,
    /// Sub-windows.
    SubWindows,
    /// The sliding log.
    SlidingLog,
    /// Permits of requests in flight.
    InFlight,
}

/// Why a key's family can't be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnknownFamily {
    /// It has a form of an older version of the library.
    Older,
    /// It has a form of a newer version of the library.
    Newer,
    /// No algorithm has this family.
    NoAlgorithm,
}

impl Family {
    const ALL: [Self; 7] = [
        Self::Gcra,
        Self::FixedWindow,
        Self::AlignedWindow,
        Self::SlidingCounter,
        Self::SubWindows,
        Self::SlidingLog,
        Self::InFlight,
    ];

    /// Returns the family of an algorithm.
    pub(crate) const fn of(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Gcra | Algorithm::LeakyQueue { .. } => Self::Gcra,
            Algorithm::FixedWindow => Self::FixedWindow,
            Algorithm::AlignedWindow => Self::AlignedWindow,
            Algorithm::SlidingCounter => Self::SlidingCounter,
            Algorithm::SubWindows(_) => Self::SubWindows,
            Algorithm::SlidingLog => Self::SlidingLog,
        }
    }

    /// Returns its name in keys. A form that changes gets the next version, so that no limiter reads a
    /// state of another form.
    pub(crate) const fn stored(self) -> &'static str {
        match self {
            Self::Gcra => "gcra",
            Self::FixedWindow => "fixed-window.2",
            Self::AlignedWindow => "aligned-window.2",
            Self::SlidingCounter => "sliding-counter.2",
            Self::SubWindows => "sub-windows.3",
            Self::SlidingLog => "sliding-log.3",
            Self::InFlight => IN_FLIGHT,
        }
    }

    /// Returns its name without the version, which is [`Algorithm::family`] of an algorithm.
    pub(crate) fn name(self) -> &'static str {
        versioned(self.stored()).0
    }

    /// Returns the type of its keys.
    pub(crate) const fn kind(self) -> &'static str {
        match self {
            Self::InFlight => "zset",
            _ if self.is_list() => "list",
            _ => "string",
        }
    }

    /// Returns whether the state is a list.
    pub(crate) const fn is_list(self) -> bool {
        matches!(self, Self::SubWindows | Self::SlidingLog)
    }

    /// Returns the family of a part of a key.
    ///
    /// # Errors
    ///
    /// Why this version of the library can't decode it.
    pub(crate) fn parse(stored: &str) -> Result<Self, UnknownFamily> {
        if stored.contains('+') {
            // Older versions stored all limits of a policy at one key.
            let mut families = stored.split('+');
            let is_known = families.all(|it| Self::parse(it) != Err(UnknownFamily::NoAlgorithm));
            return Err(if is_known { UnknownFamily::Older } else { UnknownFamily::NoAlgorithm });
        }
        let (name, version) = versioned(stored);
        let family = Self::ALL.into_iter().find(|family| family.name() == name);
        let family = family.ok_or(UnknownFamily::NoAlgorithm)?;
        let known = versioned(family.stored()).1;
        match version {
            Some(version) if Some(version) == known => Ok(family),
            Some(version) if Some(version) < known => Err(UnknownFamily::Older),
            Some(_) => Err(UnknownFamily::Newer),
            None => Err(UnknownFamily::NoAlgorithm),
        }
    }
}

/// Returns a name and its version, which is 1 without a suffix. The version is `None` if it is not one.
fn versioned(stored: &str) -> (&str, Option<u32>) {
    match stored.split_once('.') {
        None => (stored, Some(1)),
        Some((name, version)) => {
            let is_version = !version.starts_with(['0', '+']);
            (name, version.parse().ok().filter(|version| is_version && *version > 1))
        }
    }
}
