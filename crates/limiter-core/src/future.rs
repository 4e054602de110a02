//! The future of a limiter's operation.

use alloc::boxed::Box;
use core::{
    fmt,
    pin::Pin,
    task::{Context, Poll, Waker, ready},
};

use crate::{Error, ErrorKind};

/// The future of a limiter's operation: ready at once from memory, pending from a store.
///
/// A limiter in memory returns [`LimiterFuture::ready`], which allocates nothing. With a store, nothing may
/// be sent before the future is first polled; if it is dropped before it is ready, the store may or
/// may not have executed the operation. Polled again after it was ready, it returns an error of the kind
/// [`Unexpected`](ErrorKind::Unexpected), and executes nothing.
#[must_use = "an operation may not be executed until its future is awaited"]
pub struct LimiterFuture<T>(Repr<T>);

enum Repr<T> {
    /// `None` once it was taken.
    Ready(Option<Result<T, Error>>),
    Pending(Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>),
}

impl<T> LimiterFuture<T> {
    /// Returns a future that is ready.
    #[inline]
    pub const fn ready(result: Result<T, Error>) -> Self {
        Self(Repr::Ready(Some(result)))
    }

    /// Returns a future that runs `future`.
    pub fn pending(future: impl Future<Output = Result<T, Error>> + Send + 'static) -> Self {
        Self(Repr::Pending(Box::pin(future)))
    }

    /// Returns a future that runs `future`, which may be ready at its first poll: of limiters in memory.
    pub(crate) fn polled(future: impl Future<Output = Result<T, Error>> + Send + 'static) -> Self {
        let mut future = Box::pin(future);
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Self::ready(result),
            Poll::Pending => Self(Repr::Pending(future)),
        }
    }

    /// Returns the future of another result, which is ready if this one is.
    pub(crate) fn map<U>(self, map: impl FnOnce(T) -> U + Send + 'static) -> LimiterFuture<U>
    where
        T: Send + 'static,
    {
        match self.0 {
            Repr::Ready(Some(result)) => LimiterFuture::ready(result.map(map)),
            _ => LimiterFuture::pending(async { self.await.map(map) }),
        }
    }

    /// Returns the result if it was ready from the start and was not taken, without polling anything.
    #[inline]
    pub const fn as_ready(&self) -> Option<&Result<T, Error>> {
        match &self.0 {
            Repr::Ready(result) => result.as_ref(),
            Repr::Pending(_) => None,
        }
    }

    /// Takes the result if it was ready from the start, without polling anything.
    #[inline]
    pub fn take_ready(&mut self) -> Option<Result<T, Error>> {
        match &mut self.0 {
            Repr::Ready(result) => result.take(),
            Repr::Pending(_) => None,
        }
    }
}

#[cfg(feature = "std")]
impl<T> LimiterFuture<T> {
    /// Blocks the thread until the operation has ended, and returns its result: for threads without an async runtime.
    ///
    /// Don't call it on a thread of an async runtime, where it may never return: the runtime's timer or connection that
    /// it waits for may need that thread, such as the only one of a runtime. Await the future there.
    ///
    /// ```
    /// use limiter_core::{Key, Limiter, MemoryLimiter, Policy, Quota};
    ///
    /// let limiter = MemoryLimiter::new(Policy::gcra("api", Quota::per_minute(60)));
    /// let key = Key::from("alice");
    /// assert!(Limiter::check(&limiter, &key).wait()?.is_admitted());
    /// # Ok::<(), limiter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As the operation; and [`ErrorKind::Unexpected`] if the result was [taken](Self::take_ready) before.
    pub fn wait(mut self) -> Result<T, Error> {
        let waker = crate::sync::unpark_this_thread();
        let mut context = Context::from_waker(&waker);
        loop {
            match Pin::new(&mut self).poll(&mut context) {
                Poll::Ready(result) => return result,
                Poll::Pending => std::thread::park(),
            }
        }
    }
}

// Nothing in it is pinned: the future is in a box.
impl<T> Unpin for LimiterFuture<T> {}

impl<T> Future for LimiterFuture<T> {
    type Output = Result<T, Error>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            // Nothing that a request reaches panics.
            Repr::Ready(result) => Poll::Ready(result.take().unwrap_or_else(|| Err(was_taken()))),
            Repr::Pending(future) => {
                let result = ready!(future.as_mut().poll(cx));
                self.0 = Repr::Ready(None);
                Poll::Ready(result)
            }
        }
    }
}

/// Returns the error of a future that is polled after its result was taken.
#[cold]
fn was_taken() -> Error {
    let message = "the result of this operation was taken before: poll or take a future once";
    Error::new(ErrorKind::Unexpected, message)
}

impl<T: fmt::Debug> fmt::Debug for LimiterFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Ready(result) => f.debug_tuple("Ready").field(result).finish(),
            Repr::Pending(_) => f.write_str("Pending"),
        }
    }
}
