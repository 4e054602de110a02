//! Ends the wait for the longest hold.

use std::{
    sync::{Mutex, PoisonError},
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

/// Tells tasks how a hold went on.
#[derive(Debug, Default)]
pub(super) struct Signal(Mutex<(Progress, Vec<Waker>)>);

impl Signal {
    /// Sets how the hold went on, unless that is set, and wakes all tasks.
    pub(super) fn set(&self, progress: Progress) {
        let wakers = {
            let (current, wakers) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if *current == Progress::Held {
                *current = progress;
            }
            std::mem::take(wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(super) fn get(&self) -> Progress {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// Returns how the hold went on, once that is set.
    pub(super) fn poll(&self, cx: &Context<'_>) -> Poll<Progress> {
        let (progress, wakers) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *progress != Progress::Held {
            return Poll::Ready(*progress);
        }
        if !wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }
}
