//! The permit of a request in flight.

use alloc::{boxed::Box, sync::Arc};
use core::{fmt, future::pending, pin::Pin};

/// A permit that a request in flight holds. It is given back when this is dropped.
///
/// A permit in memory lasts as long as it is held. Through a store it can be [lost](Self::is_lost): when the store could
/// not be reached for longer than a permit lasts there without renewal, another request may have taken its place.
#[must_use = "the permit is given back when it is dropped"]
pub struct InFlightPermit(Arc<dyn HeldPermit>);

/// What a limiter keeps for a permit: dropping it gives the permit back.
pub trait HeldPermit: Send + Sync {
    /// Returns whether the permit does not count any more, although it is held.
    fn is_lost(&self) -> bool {
        false
    }

    /// Returns a future that is ready once the permit [is lost](Self::is_lost). The default is never ready.
    fn lost(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(pending())
    }

    /// Returns whether the permit can be lost at all. The default is false.
    fn can_be_lost(&self) -> bool {
        false
    }
}

impl InFlightPermit {
    /// Returns a permit that is given back when `held` is dropped.
    pub fn new(held: impl HeldPermit + 'static) -> Self {
        Self(Arc::new(held))
    }

    /// Returns whether the permit does not count any more, although it is held.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.0.is_lost()
    }

    /// Returns whether the permit can be lost at all: through a store, not in memory.
    #[must_use]
    pub fn can_be_lost(&self) -> bool {
        self.0.can_be_lost()
    }

    /// Waits until the permit is lost; in memory for ever. Work that must not exceed the limit is dropped then:
    ///
    /// ```
    /// # async fn example(permit: limiter_core::InFlightPermit, work: impl Future<Output = ()> + Unpin) {
    /// use futures::future::{Either, select};
    ///
    /// let lost = core::pin::pin!(permit.lost());
    /// match select(work, lost).await {
    ///     Either::Left(_) => println!("done"),
    ///     Either::Right(_) => println!("another one may run in its place"),
    /// }
    /// # }
    /// ```
    pub fn lost(&self) -> impl Future<Output = ()> + Send + use<> {
        self.0.lost()
    }
}

impl fmt::Debug for InFlightPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlightPermit").field("is_lost", &self.is_lost()).finish()
    }
}
