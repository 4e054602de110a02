//! Requests in flight, limited in memory.

#![expect(clippy::indexing_slicing, reason = "a helper that fails fails its test")]

mod limits;
mod memory;
mod oracle;
mod properties;
mod threads;
mod waiting;

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use limiter_core::{Entry, InFlight, InFlightPermit, ManualClock};

type Limiter = InFlight<ManualClock>;

fn limiter(limit: u32) -> Limiter {
    InFlight::builder("test", limit).clock(ManualClock::new()).build().unwrap()
}

/// Returns the permits of entries that were all admitted.
fn permits(entries: impl IntoIterator<Item = Entry>) -> Vec<InFlightPermit> {
    entries.into_iter().map(|entry| entry.into_permit().unwrap()).collect()
}

/// A call of `acquire` as a task, which is polled only when a test says so.
struct Task {
    future: Pin<Box<dyn Future<Output = Entry> + Send>>,
    signal: Arc<Signal>,
}

/// Counts wakes.
#[derive(Default)]
struct Signal(AtomicUsize);

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Task {
    /// Returns a task that was not polled yet.
    fn new(future: Pin<Box<dyn Future<Output = Entry> + Send>>) -> Self {
        Self { future, signal: Arc::default() }
    }

    /// Returns a task that waits.
    fn waiting(future: Pin<Box<dyn Future<Output = Entry> + Send>>) -> Self {
        let mut task = Self::new(future);
        assert!(task.poll().is_none(), "it has nothing to wait for");
        task
    }

    fn poll(&mut self) -> Option<Entry> {
        let waker = Waker::from(Arc::clone(&self.signal));
        match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(entry) => Some(entry),
            Poll::Pending => None,
        }
    }

    fn wakes(&self) -> usize {
        self.signal.0.load(Ordering::Relaxed)
    }
}
