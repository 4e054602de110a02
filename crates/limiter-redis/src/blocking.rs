//! Operations of callers without a runtime.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

use limiter_core::{Cost, Decision, Error, ErrorKind, Key, LimiterFuture, Reservation};
use tokio::runtime::Handle;

use crate::{client::ScriptClient, limiter::RedisLimiter};

impl<C: ScriptClient> RedisLimiter<C> {
    /// Charges one permit to `key` if it fits now, and blocks the thread until the answer is there: as
    /// [`check`](Self::check), for threads without a Tokio runtime.
    ///
    /// ```no_run
    /// # fn example(limiter: limiter_redis::RedisLimiter) -> Result<(), limiter_core::Error> {
    /// if limiter.check_blocking("alice")?.is_admitted() {
    ///     println!("hello, alice");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check), and [`ErrorKind::InvalidSetting`] on a thread of a Tokio runtime, which
    /// must not be blocked.
    pub fn check_blocking<'a>(&self, key: impl Into<Key<'a>>) -> Result<Decision, Error> {
        self.check_n_blocking(key, Cost::ONE)
    }

    /// Charges `cost` to `key` if it fits now, as [`check_blocking`](Self::check_blocking) does.
    ///
    /// # Errors
    ///
    /// As [`check_blocking`](Self::check_blocking).
    pub fn check_n_blocking<'a>(
        &self,
        key: impl Into<Key<'a>>,
        cost: Cost,
    ) -> Result<Decision, Error> {
        block_on("check", self.check_n(key, cost))
    }

    /// Charges as many permits to `key` as fit now, at most `most`, as [`take_up_to`](Self::take_up_to) does.
    ///
    /// # Errors
    ///
    /// As [`check_blocking`](Self::check_blocking).
    pub fn take_up_to_blocking<'a>(
        &self,
        key: impl Into<Key<'a>>,
        most: Cost,
    ) -> Result<Reservation, Error> {
        block_on("take_up_to", self.take_up_to(key, most))
    }

    /// Charges `cost` to `key` whether or not it fits, as [`charge`](Self::charge) does.
    ///
    /// # Errors
    ///
    /// As [`check_blocking`](Self::check_blocking).
    pub fn charge_blocking<'a>(
        &self,
        key: impl Into<Key<'a>>,
        cost: Cost,
    ) -> Result<Reservation, Error> {
        block_on("charge", self.charge(key, cost))
    }
}

/// Blocks the thread until an operation has ended.
fn block_on<T>(name: &str, operation: LimiterFuture<T>) -> Result<T, Error> {
    if Handle::try_current().is_ok() {
        let message = format!(
            "{name}_blocking was called on a thread of a Tokio runtime: await `{name}`, or in \
             `spawn_blocking` pass it to `Handle::block_on`"
        );
        return Err(Error::new(ErrorKind::InvalidSetting, message));
    }
    poll_here(operation)
}

/// Polls a future on this thread until it is ready.
fn poll_here<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
