//! The clocks by which a limiter in memory decides and waits.

mod manual;
mod system;

use std::pin::Pin;

pub use manual::ManualClock;
pub use system::SystemClock;

use crate::Timestamp;

/// A source of the current time.
///
/// A limiter only compares timestamps of one clock, so a clock may start anywhere. It may step: after
/// a step back a key waits at most for its recovery and its policy's horizon, and gets no new
/// allowance; after a step ahead keys have recovered.
///
/// A limiter may read its clock while it holds a lock, so a clock must not call the limiter.
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Timestamp;

    /// Returns the time since the Unix epoch. The default is [`now`](Self::now).
    ///
    /// Only limiters with an [aligned window](crate::Policy::aligned_window) read it, so that windows
    /// open at whole minutes, hours or days of the wall clock.
    fn unix_time(&self) -> Timestamp {
        self.now()
    }

    /// Blocks this thread until it is unparked, or [`now`](Self::now) has reached `moment`. May
    /// return early.
    fn park_until(&self, moment: Option<Timestamp>) {
        match moment {
            Some(moment) => std::thread::park_timeout(moment.saturating_since(self.now())),
            None => std::thread::park(),
        }
    }
}

/// A clock that wakes tasks, which `acquire` needs to wait without blocking a thread.
///
/// With the feature `tokio`, [`SystemClock`] is a timer. For another runtime, implement a clock that
/// reads the time from a `SystemClock` and sleeps as the runtime does:
///
/// ```
/// use std::pin::Pin;
/// use limiter_core::{Clock, SystemClock, Timer, Timestamp};
///
/// struct MyClock(SystemClock);
///
/// impl Clock for MyClock {
///     fn now(&self) -> Timestamp {
///         self.0.now()
///     }
///
///     fn unix_time(&self) -> Timestamp {
///         self.0.unix_time()
///     }
/// }
///
/// impl Timer for MyClock {
///     fn sleep_until(&self, moment: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
///         let time = moment.saturating_since(self.now());
///         Box::pin(async move {
///             // Here: the runtime's own sleep.
/// #           let _ = time;
///         })
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't wake tasks, so a limiter with this clock has no `acquire`",
    label = "this clock is not a `Timer`",
    note = "`SystemClock` is a `Timer` with the feature `tokio` of limiter-core or limiter-tower",
    note = "without a runtime, use `acquire_blocking`; for another runtime, implement `Timer`"
)]
pub trait Timer: Clock {
    /// Returns a future that is ready when [`now`](Clock::now) has reached `moment`.
    fn sleep_until(&self, moment: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}
