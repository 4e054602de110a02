//! The clock of a process, and sleeps by it.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use limiter_core::{Clock, Timer, Timestamp};

use crate::{executor::Executor, sync::lock, vocabulary::Micros};

/// The monotonic clock of a process: it starts anywhere, runs at a rate of its own, and stands still while the process
/// is suspended. A clone is the same clock.
#[derive(Clone, Debug)]
pub(crate) struct ProcessClock {
    executor: Executor,
    reading: Arc<Mutex<Reading>>,
}

/// What a clock showed, and when.
#[derive(Clone, Copy, Debug)]
struct Reading {
    since: Micros,
    nanos: u64,
    /// How many nanoseconds it counts in a millisecond.
    rate: u64,
    stands_still: bool,
}

impl ProcessClock {
    /// Returns a clock that shows `nanos` now, and runs faster by so many parts per million.
    pub(crate) fn new(executor: &Executor, nanos: u64, ppm: i64) -> Self {
        let rate = 1_000_000_u64.saturating_add_signed(ppm);
        let reading = Reading { since: executor.now(), nanos, rate, stands_still: false };
        Self { executor: executor.clone(), reading: Arc::new(Mutex::new(reading)) }
    }

    /// Stops the clock, or lets it go on.
    pub(crate) fn stand_still(&self, stands_still: bool) {
        let nanos = self.nanos();
        let mut reading = lock(&self.reading);
        *reading = Reading { since: self.executor.now(), nanos, stands_still, ..*reading };
    }

    fn nanos(&self) -> u64 {
        let Reading { since, nanos, rate, stands_still } = *lock(&self.reading);
        let micros = if stands_still { 0 } else { self.executor.now() - since };
        let passed = u128::from(micros) * u128::from(rate) / 1_000;
        nanos.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    /// Returns when the clock will show `nanos` if it goes on.
    fn shows_at(&self, nanos: u64) -> Micros {
        let reading = *lock(&self.reading);
        let left = u128::from(nanos.saturating_sub(reading.nanos)) * 1_000;
        let micros = left.div_ceil(u128::from(reading.rate));
        reading.since.saturating_add(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// Returns a future that is ready after a time by this clock.
    pub(crate) fn sleep(&self, time: Duration) -> Sleep {
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let ends = self.nanos().saturating_add(time);
        Sleep { clock: self.clone(), ends, wakes_at: None, waker: Arc::default() }
    }
}

impl Clock for ProcessClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.nanos())
    }
}

impl Timer for ProcessClock {
    fn sleep_until(&self, moment: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.sleep(moment.saturating_since(self.now())))
    }
}

/// See [`ProcessClock::sleep`].
#[derive(Debug)]
pub(crate) struct Sleep {
    clock: ProcessClock,
    /// In nanoseconds of the clock.
    ends: u64,
    /// The event that wakes the task.
    wakes_at: Option<Micros>,
    waker: Arc<Mutex<Option<Waker>>>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.clock.nanos() >= self.ends {
            return Poll::Ready(());
        }
        *lock(&self.waker) = Some(context.waker().clone());
        // Later than before if the clock stood still in between.
        let wakes_at = self.clock.shows_at(self.ends);
        if self.wakes_at.replace(wakes_at) != Some(wakes_at) {
            let waker = Arc::clone(&self.waker);
            self.clock.executor.at(wakes_at, move || {
                let waker = lock(&waker).take();
                waker.into_iter().for_each(Waker::wake);
            });
        }
        Poll::Pending
    }
}

/// The event of a sleep that was dropped wakes nobody.
impl Drop for Sleep {
    fn drop(&mut self) {
        lock(&self.waker).take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::ProcessId;

    const ONE: ProcessId = ProcessId(1);

    fn world() -> Executor {
        let executor = Executor::new();
        executor.start(ONE);
        executor
    }

    /// Lets a process sleep for 10 ms, and returns when it woke up.
    fn sleeper(executor: &Executor, ppm: i64) -> (ProcessClock, Arc<Mutex<Option<Micros>>>) {
        let clock = ProcessClock::new(executor, 7, ppm);
        let (sleep, woken) = (clock.sleep(Duration::from_millis(10)), Arc::default());
        let (seen, now) = (Arc::clone(&woken), executor.clone());
        executor.spawn(ONE, async move {
            sleep.await;
            *lock(&seen) = Some(now.now());
        });
        (clock, woken)
    }

    #[test]
    fn a_sleep_of_a_process_that_runs_ends_by_its_clock() {
        for (ppm, end) in [(0, 10_000), (1_000, 9_991), (-1_000, 10_011)] {
            let executor = world();
            let (_, woken) = sleeper(&executor, ppm);
            executor.run_until(20_000);
            assert_eq!(*lock(&woken), Some(end), "{ppm}");
        }
    }

    #[test]
    fn a_sleep_of_a_stopped_process_ends_when_it_is_resumed() {
        let executor = world();
        let (_, woken) = sleeper(&executor, 0);
        executor.run_until(1_000);
        executor.stop(ONE);
        executor.run_until(50_000);
        assert_eq!(*lock(&woken), None);
        executor.resume(ONE);
        executor.run_until(50_000);
        assert_eq!(*lock(&woken), Some(50_000));
    }

    #[test]
    fn a_sleep_of_a_suspended_process_goes_on_when_it_is_resumed() {
        let executor = world();
        let (clock, woken) = sleeper(&executor, 0);
        executor.run_until(1_000);
        executor.stop(ONE);
        clock.stand_still(true);
        executor.run_until(50_000);
        clock.stand_still(false);
        executor.resume(ONE);
        executor.run_until(58_999);
        assert_eq!(*lock(&woken), None);
        executor.run_until(59_000);
        assert_eq!(*lock(&woken), Some(59_000));
    }
}
