//! The clocks by which a limiter in memory decides and waits.

mod manual;

use std::{
    pin::Pin,
    sync::{Arc, LazyLock},
    time::SystemTime,
};

pub use manual::ManualClock;

use crate::Timestamp;

/// A source of the current time.
///
/// A limiter only compares timestamps of one clock, so a clock may start anywhere. It may step: after
/// a step back a key waits at most for its recovery and its policy's horizon, and gets no new
/// allowance; after a step ahead keys have recovered. By GCRA that holds for steps of up to 73 years. By
/// the other algorithms time stands still from 566 years after the clock's zero on.
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

/// A clock that is shared, for example as an `Arc<dyn Clock>`.
impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }

    fn unix_time(&self) -> Timestamp {
        (**self).unix_time()
    }

    fn park_until(&self, moment: Option<Timestamp>) {
        (**self).park_until(moment);
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

/// The machine's clock.
///
/// [`now`](Clock::now) is monotonic and counts from the first use of a `SystemClock` in the process.
/// It reads the processor's time-stamp counter where that is stable, and the operating system's
/// monotonic clock otherwise. [`unix_time`](Clock::unix_time) is the operating system's wall clock,
/// which may step.
///
/// All values share one calibration, which is done once a process. With the feature `tokio`, it is a
/// [`Timer`] for tasks on tokio's runtime.
#[derive(Clone, Debug)]
pub struct SystemClock {
    source: quanta::Clock,
    /// The raw time of the first use.
    start: u64,
}

static CALIBRATED: LazyLock<SystemClock> = LazyLock::new(|| {
    let source = quanta::Clock::new();
    SystemClock { start: source.raw(), source }
});

impl SystemClock {
    /// Returns the clock. The first call in a process may take up to 200 ms to calibrate it.
    #[must_use]
    pub fn new() -> Self {
        CALIBRATED.clone()
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.source.delta_as_nanos(self.start, self.source.raw()))
    }

    /// Returns zero while the wall clock is set to a time before 1970.
    fn unix_time(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Timestamp::ZERO.saturating_add(since_epoch.unwrap_or_default())
    }
}

/// Must be polled within a tokio runtime that has its timer enabled.
#[cfg(feature = "tokio")]
impl Timer for SystemClock {
    fn sleep_until(&self, moment: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(moment.saturating_since(self.now())))
    }
}
