//! A waker for code without a runtime.

use alloc::{sync::Arc, task::Wake};
use core::task::Waker;
use std::thread::{self, Thread};

/// Returns a waker that unparks this thread.
pub(crate) fn unpark_this_thread() -> Waker {
    Waker::from(Arc::new(Unpark(thread::current())))
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
