//! How long the machine itself makes a test wait, so that what is measured can be told from it.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Tells how long the machine let a thread wait that had something to do, which no one can answer
/// for.
///
/// Where the system tells how long threads stood ready without being run, as Linux does, this is the
/// most of any thread of the process within [`Machine::WITHIN`]; and at least how late a thread was
/// that slept.
///
/// ```
/// let machine = limiter_rig::machine::Machine::watch();
/// let stalled = machine.longest_stall();
/// assert!(stalled < std::time::Duration::from_secs(60));
/// ```
#[derive(Debug)]
pub struct Machine {
    over: Arc<AtomicBool>,
    watchers: [JoinHandle<Duration>; 2],
}

impl Machine {
    /// Several waits in a row are one stall if they are within this time.
    pub const WITHIN: Duration = Duration::from_millis(200);

    /// Starts to watch.
    #[must_use]
    pub fn watch() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let watchers = [longest_delay, longest_wait].map(|watch| {
            let over = Arc::clone(&over);
            thread::spawn(move || watch(&over))
        });
        Self { over, watchers }
    }

    /// Returns the longest stall since [`watch`](Self::watch), and watches no more.
    #[must_use]
    pub fn longest_stall(self) -> Duration {
        self.over.store(true, Ordering::Relaxed);
        let stalls = self.watchers.into_iter().map(|watcher| watcher.join().unwrap_or_default());
        stalls.max().unwrap_or_default()
    }
}

/// How late a thread is that sleeps.
fn longest_delay(over: &AtomicBool) -> Duration {
    const PAUSE: Duration = Duration::from_millis(1);
    let mut longest = Duration::ZERO;
    while !over.load(Ordering::Relaxed) {
        let start = Instant::now();
        thread::sleep(PAUSE);
        longest = longest.max(start.elapsed().saturating_sub(PAUSE));
    }
    longest
}

/// How long a thread stands ready, by the system's own count.
fn longest_wait(over: &AtomicBool) -> Duration {
    const SAMPLES: u32 = 10;
    let mut seen: Vec<HashMap<OsString, Duration>> = Vec::new();
    let mut longest = Duration::ZERO;
    while !over.load(Ordering::Relaxed) {
        let now = waits();
        for (thread, waited) in &now {
            let before = seen.first().and_then(|waits| waits.get(thread));
            let before = before.copied().unwrap_or_default();
            longest = longest.max(waited.saturating_sub(before));
        }
        if seen.len() == SAMPLES as usize {
            seen.remove(0);
        }
        seen.push(now);
        thread::sleep(Machine::WITHIN / SAMPLES);
    }
    longest
}

/// Returns how long each thread of the process has stood ready in its life, where the system tells.
fn waits() -> HashMap<OsString, Duration> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let waited = threads.filter_map(|thread| {
        // How long it ran and how long it waited, in nanoseconds, and how often it was run.
        let counts = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let waited = counts.split_whitespace().nth(1)?.parse().ok()?;
        Some((thread.file_name(), Duration::from_nanos(waited)))
    });
    waited.collect()
}
