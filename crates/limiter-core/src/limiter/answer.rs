//! The future that every operation of a limiter returns.

use alloc::boxed::Box;
use core::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use crate::Error;

/// The future of a limiter's answer: ready at once from memory, pending from a store.
///
/// A limiter in memory returns [`Answer::ready`], which allocates nothing. With a store, nothing may
/// be sent before the answer is first polled; if it is dropped before it is ready, the store may or
/// may not have executed the operation.
#[must_use = "an operation may not be executed until its answer is awaited"]
pub struct Answer<T>(Repr<T>);

enum Repr<T> {
    /// `None` once it was taken.
    Ready(Option<Result<T, Error>>),
    Pending(Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>),
}

impl<T> Answer<T> {
    /// Returns an answer that is ready.
    #[inline]
    pub const fn ready(result: Result<T, Error>) -> Self {
        Self(Repr::Ready(Some(result)))
    }

    /// Returns an answer that `future` computes.
    pub fn pending(future: impl Future<Output = Result<T, Error>> + Send + 'static) -> Self {
        Self(Repr::Pending(Box::pin(future)))
    }

    /// Returns the answer if it was ready from the start and was not taken, without polling anything.
    #[inline]
    pub const fn as_ready(&self) -> Option<&Result<T, Error>> {
        match &self.0 {
            Repr::Ready(result) => result.as_ref(),
            Repr::Pending(_) => None,
        }
    }

    /// Takes the answer if it was ready from the start, without polling anything.
    #[inline]
    pub fn take_ready(&mut self) -> Option<Result<T, Error>> {
        match &mut self.0 {
            Repr::Ready(result) => result.take(),
            Repr::Pending(_) => None,
        }
    }
}

// Nothing in it is pinned: the future is in a box.
impl<T> Unpin for Answer<T> {}

impl<T> Future for Answer<T> {
    type Output = Result<T, Error>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            // Like any future, pending for ever when polled after it has completed.
            Repr::Ready(result) => result.take().map_or(Poll::Pending, Poll::Ready),
            Repr::Pending(future) => future.as_mut().poll(cx),
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Answer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Ready(result) => f.debug_tuple("Ready").field(result).finish(),
            Repr::Pending(_) => f.write_str("Pending"),
        }
    }
}
