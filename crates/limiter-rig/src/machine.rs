//! How long the machine itself makes a test wait, so that tests that measure time can excuse it.

use std::{
    collections::HashMap,
    fs,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::PathBuf,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::Poll,
    thread,
    time::{Duration, Instant},
};

/// How often [`excusing_stalls`] runs a test.
const ATTEMPTS: u32 = 5;

/// Runs a test that depends on time. If it fails although the machine did not stall for longer than `allowed`, it
/// failed. If the machine did, the test runs again, and after five such runs its failure is excused.
///
/// `allowed` is the longest stall with which the test holds, such as the deadline less the time that a reply takes.
///
/// # Panics
///
/// If the test does, without an excuse.
pub async fn excusing_stalls(allowed: Duration, test: impl AsyncFn()) {
    for attempt in 1..=ATTEMPTS {
        let machine = Machine::watch();
        let mut running = pin!(test());
        let result = poll_fn(|context| {
            match catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(context))) {
                Ok(poll) => poll.map(Ok),
                Err(panic) => Poll::Ready(Err(panic)),
            }
        });
        let Err(panic) = result.await else { return };
        let stalled = machine.longest_stall();
        if stalled <= allowed {
            resume_unwind(panic);
        }
        eprintln!(
            "attempt {attempt} of {ATTEMPTS}: excused, because the machine stalled for {stalled:?}"
        );
    }
}

/// Measures how long the machine let a thread wait that was ready to run, which is no fault of the code under test.
///
/// Where the system counts how long threads were ready without being run, as Linux does, this is the
/// most of any thread of the process and of its children, such as servers, within [`Machine::WITHIN`]; and at least how
/// late a thread was that slept.
///
/// ```
/// let machine = limiter_rig::machine::Machine::watch();
/// let stalled = machine.longest_stall();
/// assert!(stalled < std::time::Duration::from_secs(60));
/// ```
#[derive(Debug)]
pub struct Machine {
    watched: Arc<Watched>,
}

/// What the watching threads share with a [`Machine`].
#[derive(Debug, Default)]
struct Watched {
    over: AtomicBool,
    longest_nanos: AtomicU64,
}

impl Machine {
    /// Several waits in a row are one stall if they are within this time.
    pub const WITHIN: Duration = Duration::from_millis(200);

    /// Starts to watch, until the value is dropped.
    #[must_use]
    pub fn watch() -> Self {
        let watched = Arc::new(Watched::default());
        // What was counted before does not matter.
        let before = waits();
        let of_delays = Arc::clone(&watched);
        thread::spawn(move || watch_delays(&of_delays));
        let of_waits = Arc::clone(&watched);
        thread::spawn(move || watch_waits(&of_waits, before));
        Self { watched }
    }

    /// Returns the longest stall since [`watch`](Self::watch).
    #[must_use]
    pub fn longest_stall(&self) -> Duration {
        // The watching threads may have been stalled, too.
        thread::sleep(2 * INTERVAL);
        Duration::from_nanos(self.watched.longest_nanos.load(Ordering::Relaxed))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.watched.over.store(true, Ordering::Relaxed);
    }
}

impl Watched {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn note(&self, stall: Duration) {
        let nanos = u64::try_from(stall.as_nanos()).unwrap_or(u64::MAX);
        self.longest_nanos.fetch_max(nanos, Ordering::Relaxed);
    }
}

/// Notes how late a thread is that sleeps.
fn watch_delays(watched: &Watched) {
    const PAUSE: Duration = Duration::from_millis(1);
    while !watched.is_over() {
        let start = Instant::now();
        thread::sleep(PAUSE);
        watched.note(start.elapsed().saturating_sub(PAUSE));
    }
}

/// How many times a thread's waits are read within [`Machine::WITHIN`].
const SAMPLES: usize = 10;

const INTERVAL: Duration = Duration::from_millis(20);

/// Notes how long a thread is ready and not run, by the system's own count.
fn watch_waits(watched: &Watched, before: HashMap<PathBuf, Duration>) {
    let mut seen = vec![before];
    while !watched.is_over() {
        thread::sleep(INTERVAL);
        let now = waits();
        for (thread, waited) in &now {
            let before = seen.first().and_then(|waits| waits.get(thread));
            watched.note(waited.saturating_sub(before.copied().unwrap_or_default()));
        }
        if seen.len() == SAMPLES {
            seen.remove(0);
        }
        seen.push(now);
    }
}

/// Returns how long each thread of the process and of its children has been ready and not run in its life, where the
/// system counts it.
fn waits() -> HashMap<PathBuf, Duration> {
    let own = threads("self");
    let children = own.iter().filter_map(|thread| fs::read_to_string(thread.join("children")).ok());
    let children: Vec<String> = children.collect();
    let children = children.iter().flat_map(|pids| pids.split_whitespace()).flat_map(threads);
    let waited = own.iter().cloned().chain(children).filter_map(|thread| {
        // How long it ran and how long it waited, in nanoseconds, and how often it was run.
        let counts = fs::read_to_string(thread.join("schedstat")).ok()?;
        let waited = counts.split_whitespace().nth(1)?.parse().ok()?;
        Some((thread, Duration::from_nanos(waited)))
    });
    waited.collect()
}

/// Returns the folders of a process's threads.
fn threads(process: &str) -> Vec<PathBuf> {
    let threads = fs::read_dir(format!("/proc/{process}/task"));
    threads.into_iter().flatten().flatten().map(|thread| thread.path()).collect()
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, future::Future, pin::Pin, task::Context, task::Waker};

    use super::*;

    /// Polls a future that is ready.
    fn now(future: impl Future<Output = ()>) {
        let future: Pin<&mut _> = pin!(future);
        assert!(future.poll(&mut Context::from_waker(Waker::noop())).is_ready());
    }

    #[test]
    fn a_failure_without_a_stall_is_a_failure() {
        let attempts = Cell::new(0);
        let failing = async || {
            attempts.set(attempts.get() + 1);
            resume_unwind(Box::new("failed"));
        };
        let run = || now(excusing_stalls(Duration::MAX, failing));
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
        assert_eq!(attempts.get(), 1);
    }

    #[test]
    fn a_failure_in_a_stall_is_run_again_until_it_is_excused() {
        for (fails, expected) in [(1, 2), (u32::MAX, ATTEMPTS)] {
            let attempts = Cell::new(0);
            let failing = async || {
                attempts.set(attempts.get() + 1);
                if attempts.get() <= fails {
                    resume_unwind(Box::new("failed"));
                }
            };
            // A thread that sleeps is always late by more than nothing.
            now(excusing_stalls(Duration::ZERO, failing));
            assert_eq!(attempts.get(), expected);
        }
    }
}
