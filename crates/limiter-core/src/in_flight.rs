//! How many requests of a key are in flight at once: the interface of the limiters in memory and through a store.

#[cfg(feature = "std")]
mod memory;
mod permit;

#[cfg(feature = "std")]
pub use memory::{InFlight, InFlightBuilder, InFlightStats};
pub use permit::{HeldPermit, InFlightPermit};

use crate::{Error, ErrorKind, Key, LimiterFuture, LimiterId, Source, policy::validate_name};

/// Limits how many requests of a key are in flight at once.
///
/// A request takes a [permit](InFlightPermit) when it enters, and gives it back when that is dropped. No clock is
/// involved, so a refusal can't say when there is room again.
///
/// The limit comes with the call: a caller passes the limiter's [own](Self::limit), or that of a customer's plan. A lower
/// limit than what is held cuts nothing off; it refuses until enough permits are given back.
///
/// # Errors
///
/// A result is an error if the store fails, of the [kind](crate::ErrorKind) `Unavailable`, `Undetermined` or `Unexpected`.
/// A refusal is not an error. A limiter in memory is ready at once and returns no error.
#[diagnostic::on_unimplemented(
    note = "instead of an `Arc` of a limiter, pass a clone of it, which has the same permits, or an `Arc<dyn InFlightLimiter>`",
    note = "a `Result`, such as that of `InFlight::new`, needs a `?` first"
)]
pub trait InFlightLimiter: Send + Sync {
    /// Returns the name, which header fields, log lines and metrics carry. Through a store it finds the states.
    fn name(&self) -> &str;

    /// Returns the limiter's own limit, from 1.
    fn limit(&self) -> u32;

    /// Sets the limiter's own limit for all handles, from now on. Requests in flight go on.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] if `limit` is zero.
    fn set_limit(&self, limit: u32) -> Result<(), Error>;

    /// Returns which states this handle is on.
    fn id(&self) -> LimiterId;

    /// Returns what holds the states, for metrics and events: `memory`, `redis`, or the name of another store.
    fn store(&self) -> &'static str {
        "other"
    }

    /// Takes a permit of `key` if fewer than `limit` are held. Never waits. A limit of zero refuses.
    fn enter(&self, key: &Key<'_>, limit: u32) -> LimiterFuture<Entry>;

    /// Returns how many permits of `key` are held, as [`enter`](Self::enter) would find it, and takes none.
    fn peek(&self, key: &Key<'_>, limit: u32) -> LimiterFuture<Occupancy>;

    /// Forgets the permits of `key`. Requests in flight go on; giving their permits back changes nothing.
    fn reset(&self, key: &Key<'_>) -> LimiterFuture<()>;
}

/// How many permits of a key are held, under the limit that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    held: u32,
    limit: u32,
    source: Source,
}

impl Occupancy {
    /// Returns that `held` permits are held under `limit`, by the limiter's own state.
    #[must_use]
    pub const fn new(held: u32, limit: u32) -> Self {
        Self { held, limit, source: Source::State }
    }

    /// Sets where it is known from. The default is [`Source::State`].
    #[must_use]
    pub const fn with_source(self, source: Source) -> Self {
        Self { source, ..self }
    }

    /// Returns how many permits are held. It can be more than the limit, after that was lowered.
    #[must_use]
    pub const fn held(self) -> u32 {
        self.held
    }

    /// Returns the limit that the caller asked for.
    #[must_use]
    pub const fn limit(self) -> u32 {
        self.limit
    }

    /// Returns how many more requests can enter.
    #[must_use]
    pub const fn remaining(self) -> u32 {
        match self.source {
            Source::FullTable => 0,
            _ => self.limit.saturating_sub(self.held),
        }
    }

    /// Returns whether another request can enter.
    #[must_use]
    pub const fn has_room(self) -> bool {
        self.remaining() > 0
    }

    /// Returns where it is known from: the limiter's state, a [full table](Source::FullTable) that has no place for the
    /// key, or a [limiter in memory](Source::Local) in place of a store that fails.
    #[must_use]
    pub const fn source(self) -> Source {
        self.source
    }
}

/// Whether a request may enter, and its permit.
#[derive(Debug)]
#[must_use = "the permit is given back when it is dropped"]
pub struct Entry {
    occupancy: Occupancy,
    /// `None` if it is a refusal.
    permit: Option<InFlightPermit>,
}

impl Entry {
    /// Returns an admission. `occupancy` includes its permit.
    pub const fn admitted(permit: InFlightPermit, occupancy: Occupancy) -> Self {
        Self { occupancy, permit: Some(permit) }
    }

    /// Returns a refusal.
    pub const fn refused(occupancy: Occupancy) -> Self {
        Self { occupancy, permit: None }
    }

    /// Returns whether the request may enter.
    #[must_use]
    pub const fn is_admitted(&self) -> bool {
        self.permit.is_some()
    }

    /// Returns how many permits of the key are held, that of an admission included.
    #[must_use]
    pub const fn occupancy(&self) -> Occupancy {
        self.occupancy
    }

    /// Returns the permit, to be held until the work has ended. `None` after a refusal.
    #[must_use]
    pub fn into_permit(self) -> Option<InFlightPermit> {
        self.permit
    }
}

/// Checks the name and the own limit of an [`InFlightLimiter`], for those on a store.
///
/// ```
/// use limiter_core::check_in_flight;
///
/// assert!(check_in_flight("uploads", 3).is_ok());
/// let error = check_in_flight("uploads", 0).unwrap_err();
/// assert_eq!(error.to_string(), r#"invalid limit "0": it would refuse every request; use 1 or more"#);
/// ```
///
/// # Errors
///
/// [`ErrorKind::InvalidName`] if the name is empty, longer than 64 bytes, or has a character that is not printable ASCII.
/// [`ErrorKind::InvalidSetting`] if the limit is zero.
pub fn check_in_flight(name: &str, limit: u32) -> Result<(), Error> {
    validate_name("limit", name)?;
    if limit == 0 {
        let fault = "it would refuse every request; use 1 or more";
        return Err(Error::invalid(ErrorKind::InvalidSetting, "limit", "0", fault));
    }
    Ok(())
}
