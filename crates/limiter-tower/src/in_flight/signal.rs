//! Ends the wait for the longest hold.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

/// How a hold went on. Set once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Progress {
    #[default]
    Held,
    /// The permit was given back because it was held too long.
    TooLong,
    /// The permit was given back because the work has ended.
    Ended,
}

/// Tells watchers how a hold went on.
#[derive(Debug, Default)]
pub(super) struct Signal(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    progress: Progress,
    /// One place for each watcher that waits. A free place is `None`.
    wakers: Vec<Option<Waker>>,
}

/// Waits for the progress of a hold. It keeps the waker by which it was polled last, until it is dropped.
#[derive(Debug)]
pub(super) struct Watcher {
    signal: Arc<Signal>,
    /// Its place among the wakers, once it waits.
    place: Option<usize>,
}

impl Signal {
    /// Sets how the hold went on, unless that is set, and wakes all watchers.
    pub(super) fn set(&self, progress: Progress) {
        let wakers = {
            let state = &mut *self.lock();
            if state.progress == Progress::Held {
                state.progress = progress;
            }
            mem::take(&mut state.wakers)
        };
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    pub(super) fn get(&self) -> Progress {
        self.lock().progress
    }

    pub(super) fn watch(self: &Arc<Self>) -> Watcher {
        Watcher { signal: Arc::clone(self), place: None }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watcher {
    /// Returns how the hold went on, once that is set.
    pub(super) fn poll(&mut self, cx: &Context<'_>) -> Poll<Progress> {
        let mut state = self.signal.lock();
        if state.progress != Progress::Held {
            return Poll::Ready(state.progress);
        }
        let place = self.place.or_else(|| state.wakers.iter().position(Option::is_none));
        let place = place.unwrap_or(state.wakers.len());
        if place == state.wakers.len() {
            state.wakers.push(None);
        }
        self.place = Some(place);
        let Some(kept) = state.wakers.get_mut(place) else { return Poll::Pending };
        if kept.as_ref().is_none_or(|kept| !kept.will_wake(cx.waker())) {
            let replaced = kept.replace(cx.waker().clone());
            // No waker is dropped under the lock.
            drop(state);
            drop(replaced);
        }
        Poll::Pending
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let Some(place) = self.place else { return };
        let kept = self.signal.lock().wakers.get_mut(place).and_then(Option::take);
        drop(kept);
    }
}
