//! Where a limiter in memory reads the time.

mod manual;
#[cfg(feature = "std")]
mod system;

#[cfg(feature = "std")]
use alloc::boxed::Box;
#[cfg(feature = "std")]
use core::{future::Future, pin::Pin};

pub use manual::ManualClock;
#[cfg(feature = "std")]
pub use system::SystemClock;

use crate::Timestamp;

/// Tells the time.
///
/// Any start will do, since a limiter only compares moments of one clock; windows that start by the
/// clock start at multiples since its zero. A clock that steps back makes keys wait longer, by one
/// recovery at most, unless to more than two years before the limiter was made, where time stands
/// still; one that steps ahead makes keys recover.
///
/// A limiter may look at its clock while it holds a lock: a clock must not call the limiter.
pub trait Clock: Send + Sync {
    /// Returns the present moment.
    fn now(&self) -> Timestamp;

    /// Blocks this thread until it is unparked, or it is `moment`. May return early.
    #[cfg(feature = "std")]
    fn park_until(&self, moment: Option<Timestamp>) {
        match moment {
            Some(moment) => std::thread::park_timeout(moment.saturating_since(self.now())),
            None => std::thread::park(),
        }
    }
}

/// A clock that wakes tasks: what `acquire` needs to wait without blocking a thread.
///
/// With the feature `tokio`, [`SystemClock`] is one. For another runtime, give the limiter a clock
/// of your own, which takes the time from a `SystemClock` and sleeps as the runtime does:
///
/// ```
/// use limiter_core::{Clock, Sleep, SystemClock, Timer, Timestamp};
///
/// struct MyClock(SystemClock);
///
/// impl Clock for MyClock {
///     fn now(&self) -> Timestamp {
///         self.0.now()
///     }
/// }
///
/// impl Timer for MyClock {
///     fn sleep_until(&self, moment: Timestamp) -> Sleep {
///         let time = moment.saturating_since(self.now());
///         Box::pin(async move {
///             // Here: the runtime's own sleep.
/// #           let _ = time;
///         })
///     }
/// }
/// ```
#[cfg(feature = "std")]
pub trait Timer: Clock {
    /// Returns a future that is ready when it is `moment` by this clock.
    fn sleep_until(&self, moment: Timestamp) -> Sleep;
}

/// A future that is ready at a moment.
#[cfg(feature = "std")]
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;
