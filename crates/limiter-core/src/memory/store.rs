//! What keeps states in memory.

use alloc::{boxed::Box, sync::Arc, vec::Vec};
use core::iter;

use crate::{
    Timestamp,
    algorithm::Algorithm,
    sync::{AtomicU64, Ordering},
};

/// States by the hash of their keys, each changed by one thread at a time.
pub(super) trait Store<A: Algorithm> {
    /// Runs `transition` on the state of `hash` alone, with the algorithms of all tiers, at the
    /// present moment.
    fn with<R>(
        &self,
        hash: u64,
        moment: Moment<'_>,
        promised: &Promised,
        transition: impl FnOnce(&Arc<Tiers<A>>, &mut A::State, Timestamp) -> R,
    ) -> R;

    /// Makes the state of `hash` a fresh one.
    fn reset(&self, hash: u64, moment: Moment<'_>);

    /// Replaces the algorithms of all tiers, and rewrites the states for them.
    fn replace(&self, tiers: Arc<Tiers<A>>);
}

/// The present, for someone who may be held up until the state is held.
///
/// What others have done since would look like a state from before a step back of the clock, and
/// be lowered. So whoever finds that someone was there later looks at the clock again, while the
/// state is held.
#[derive(Clone, Copy)]
pub(super) struct Moment<'a> {
    pub(super) now: Timestamp,
    clock: &'a dyn Fn() -> Timestamp,
}

impl<'a> Moment<'a> {
    #[inline]
    pub(super) fn by(clock: &'a dyn Fn() -> Timestamp) -> Self {
        Self { now: clock(), clock }
    }

    /// Looks at the clock again.
    pub(super) fn again(self) -> Self {
        Self::by(self.clock)
    }

    /// Returns the present of a state that is held, where others were last at `latest`.
    #[inline]
    pub(super) fn after(self, latest: &mut Timestamp) -> Timestamp {
        *latest = if self.now < *latest { self.again().now } else { self.now };
        *latest
    }
}

/// A policy's algorithm, and those of its other tiers.
#[derive(Clone, Debug)]
pub(super) struct Tiers<A> {
    policy: A,
    others: Box<[A]>,
}

impl<A> Tiers<A> {
    pub(super) fn new(policy: A, others: impl IntoIterator<Item = A>) -> Self {
        Self { policy, others: others.into_iter().collect::<Vec<_>>().into() }
    }

    /// Returns the algorithm of a tier: zero is the policy's own.
    #[inline]
    pub(super) fn of(&self, tier: usize) -> &A {
        tier.checked_sub(1).and_then(|index| self.others.get(index)).unwrap_or(&self.policy)
    }

    #[inline]
    pub(super) fn all(&self) -> impl Iterator<Item = &A> {
        iter::once(&self.policy).chain(&self.others)
    }

    pub(super) fn with_origin(&self, origin: Timestamp) -> Self
    where
        A: Algorithm,
    {
        let others = self.others.iter().map(|other| other.with_origin(origin));
        Self::new(self.policy.with_origin(origin), others)
    }

    /// Returns the only one there is.
    pub(super) fn only(&self) -> Option<&A> {
        self.others.is_empty().then_some(&self.policy)
    }
}

/// The latest moment for which permits were given out, of whichever key.
///
/// States are lowered to what is possible by then: a limiter that never promised anything for
/// later owes nothing to a state from before its clock stepped back.
#[derive(Debug, Default)]
pub(super) struct Promised(AtomicU64);

impl Promised {
    /// Returns that moment, at least `now`. To be called while the state is held: a promise for it
    /// is known by then.
    #[inline]
    pub(super) fn by(&self, now: Timestamp) -> Timestamp {
        now.max(Timestamp::from_nanos(self.0.load(Ordering::Relaxed)))
    }

    /// Notes a promise, while its state is held.
    pub(super) fn note(&self, at: Timestamp) {
        self.0.fetch_max(at.as_nanos(), Ordering::Relaxed);
    }
}
