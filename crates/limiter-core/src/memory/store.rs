//! What keeps states in memory.

use alloc::{sync::Arc, vec::Vec};

use crate::{
    Timestamp,
    algorithm::{Algorithm, Charge},
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
        transition: impl FnOnce(&Arc<Tiers<A>>, &mut A::State, Timestamp, Own<'_>) -> R,
    ) -> R;

    /// Makes the state of `hash` a fresh one.
    fn reset(&self, hash: u64, moment: Moment<'_>);

    /// Replaces the algorithms of all tiers, and rewrites the states for them: whichever tier is
    /// taken rewrites for all.
    fn replace(&self, tiers: Arc<Tiers<A>>, moment: Moment<'_>, promised: &Promised);
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

/// What has happened to the states that are held together, by a few bits of their keys' hashes.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// When someone was there last.
    latest: Timestamp,
    /// How often a charge was given back before others that came later.
    moved: [u16; KEYS],
    /// How often a key was made a fresh one, the clock has stepped back, or the quota changed.
    resets: [u16; KEYS],
}

/// Keys that agree in so many values of their bits are taken for one.
const KEYS: usize = 8;

/// What has happened to the state of one key.
#[derive(Debug)]
pub(super) struct Own<'a> {
    moved: &'a mut u16,
    resets: &'a mut u16,
}

/// A charge, and what had happened to its state by then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dated {
    pub(crate) charge: Charge,
    moved: u16,
    resets: u16,
}

impl Past {
    /// Returns the present of what is held.
    #[inline]
    pub(super) fn pass(&mut self, moment: Moment<'_>) -> Timestamp {
        let behind = moment.now < self.latest;
        let now = if behind { moment.again().now } else { moment.now };
        if now < self.latest {
            // The clock has stepped back.
            self.rewritten();
        }
        self.latest = now;
        now
    }

    #[inline]
    pub(super) fn of(&mut self, hash: u64) -> Own<'_> {
        #[expect(clippy::cast_possible_truncation, reason = "the low bits are all that is wanted")]
        let index = hash as usize % KEYS;
        #[expect(clippy::indexing_slicing, reason = "the remainder is below the length")]
        Own { moved: &mut self.moved[index], resets: &mut self.resets[index] }
    }

    /// To be called when states are lowered or measured anew: what was charged may be gone.
    pub(super) fn rewritten(&mut self) {
        self.resets.iter_mut().for_each(|resets| *resets = resets.wrapping_add(1));
    }

    /// To be called when many keys share a state, whose charges move each other.
    pub(super) fn moved(&mut self) {
        self.moved.iter_mut().for_each(|moved| *moved = moved.wrapping_add(1));
    }
}

impl Own<'_> {
    pub(super) const fn reset(self) {
        *self.resets = self.resets.wrapping_add(1);
    }

    #[inline]
    pub(super) const fn date(&self, charge: Charge) -> Dated {
        Dated { charge, moved: *self.moved, resets: *self.resets }
    }

    /// Gives permits back by `algorithm`, unless it may be that they are gone.
    pub(super) fn refund<A: Algorithm>(
        self,
        algorithm: &A,
        state: &mut A::State,
        now: Timestamp,
        dated: &Dated,
        permits: u64,
    ) {
        if dated.resets == *self.resets {
            let charge = Charge { moved: dated.moved != *self.moved, ..dated.charge };
            if algorithm.refund(state, now, &charge, permits) {
                *self.moved = self.moved.wrapping_add(1);
            }
        }
    }
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
}

/// A policy's algorithm, and those of its other tiers, all for the same states.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tiers<A> {
    policy: A,
    others: Vec<A>,
}

impl<A> Tiers<A> {
    /// Returns the algorithm of a tier: zero is the policy's own.
    #[inline]
    pub(super) fn of(&self, tier: usize) -> &A {
        tier.checked_sub(1).and_then(|index| self.others.get(index)).unwrap_or(&self.policy)
    }

    /// Rewrites a state that `from` has left, brought to the present, for these quotas.
    pub(super) fn take_over(
        &self,
        state: &mut A::State,
        from: &Self,
        now: Timestamp,
        promised: &Promised,
    ) where
        A: Algorithm,
    {
        let promised = promised.by(now);
        from.policy.advance(state, now, promised);
        self.policy.adopt(state, &from.policy, now);
        self.policy.advance(state, now, promised);
    }

    pub(super) fn with_origin(&self, origin: Timestamp) -> Self
    where
        A: Algorithm,
    {
        let others = self.others.iter().map(|other| other.with_origin(origin)).collect();
        Self { policy: self.policy.with_origin(origin), others }
    }
}

impl<A> From<A> for Tiers<A> {
    fn from(policy: A) -> Self {
        Self { policy, others: Vec::new() }
    }
}

impl<A> From<(A, Vec<A>)> for Tiers<A> {
    fn from((policy, others): (A, Vec<A>)) -> Self {
        Self { policy, others }
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
