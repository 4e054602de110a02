//! The permit of a request in flight.

use alloc::{boxed::Box, sync::Arc};
use core::{fmt, future::pending, pin::Pin};

/// A permit that a request in flight holds. It is given back when this is dropped.
///
/// A permit in memory lasts as long as it is held. Through a store it can be [lost](Self::is_lost): when the store
/// could not be reached for longer than a permit lasts there without renewal, another request may have taken its place.
#[must_use = "the permit is given back when it is dropped"]
pub struct InFlightPermit(Repr);

enum Repr {
    /// Of a limiter in memory. It allocates nothing: that and a spare place in each shard brought a take and a give
    /// from 143 ns to 60 (`cargo xtask bench memory`).
    Counted(Counted),
    Other(Box<dyn HeldPermit>),
}

/// A permit that a count in memory includes.
struct Counted {
    owner: Arc<dyn Owner>,
    hash: u64,
    generation: u64,
}

/// A part of a table of counts.
pub(crate) trait Owner: Send + Sync {
    /// Gives a permit back: the key's hash, and the generation of its count.
    fn give_back(&self, hash: u64, generation: u64);
}

/// It is never lost.
impl HeldPermit for Counted {}

impl Drop for Counted {
    fn drop(&mut self) {
        self.owner.give_back(self.hash, self.generation);
    }
}

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
        Self(Repr::Other(Box::new(held)))
    }

    /// Returns a permit that is given back to `owner` when it is dropped.
    pub(crate) fn counted(owner: Arc<dyn Owner>, hash: u64, generation: u64) -> Self {
        Self(Repr::Counted(Counted { owner, hash, generation }))
    }

    fn held(&self) -> &dyn HeldPermit {
        match &self.0 {
            Repr::Counted(held) => held,
            Repr::Other(held) => &**held,
        }
    }

    /// Returns whether the permit does not count any more, although it is held.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.held().is_lost()
    }

    /// Returns whether the permit can be lost at all: through a store, not in memory.
    #[must_use]
    pub fn can_be_lost(&self) -> bool {
        self.held().can_be_lost()
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
        self.held().lost()
    }
}

impl fmt::Debug for InFlightPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlightPermit").field("is_lost", &self.is_lost()).finish()
    }
}
