//! One key's debt in one 64-bit word, changed by compare-and-swap.

use core::time::Duration;

use super::scales::{Numbered, Scales};
use crate::{
    Cost, Decision, Timestamp, Usage,
    algorithm::{Charge, Scale, View},
    sync::{AtomicU64, Ordering, yield_now},
};

/// A word without a debt. Any word whose debt has drained means the same.
pub(super) const EMPTY: u64 = 0;

/// The number of a word that is being claimed for another key.
pub(super) const BUSY: u64 = 255;

const NUMBER_BITS: u32 = 8;

/// What a transition does to a word.
pub(super) enum Step<R> {
    /// Nothing is written.
    Keep(R),
    /// The debt ends at this tick of the asking quota.
    Write(u64, R),
}

/// The moment of an operation on a word.
pub(super) struct Now<'a, F: ?Sized> {
    /// The moment at which the operation takes place: the present, or when a waiter was due.
    pub(super) at: Timestamp,
    /// The present, by which slots are free and other keys' debts are judged.
    pub(super) present: Timestamp,
    clock: &'a F,
}

impl<'a, F: Fn() -> Timestamp + ?Sized> Now<'a, F> {
    #[inline]
    pub(super) fn read(clock: &'a F) -> Self {
        let present = clock();
        Self { at: present, present, clock }
    }

    /// Returns a moment that may have passed.
    pub(super) fn at(at: Timestamp, clock: &'a F) -> Self {
        Self { at, present: clock(), clock }
    }

    /// Reads the clock again.
    pub(super) fn read_present(&mut self) {
        self.present = (self.clock)();
    }

    /// Reads the clock again: the operation takes place now.
    pub(super) fn read_again(&mut self) {
        self.read_present();
        self.at = self.present;
    }
}

/// Returns the number of the scale of a word.
pub(super) const fn number(word: u64) -> u8 {
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are the number")]
    let number = word as u8;
    number
}

/// Returns when the debt of a word is drained, in ticks.
pub(super) const fn end(word: u64) -> u64 {
    word >> NUMBER_BITS
}

/// Returns the word of a debt that ends at a tick of the number's scale.
pub(super) const fn word(end: u64, number: u8) -> u64 {
    end << NUMBER_BITS | number as u64
}

/// Returns whether the debt of a word has drained before `now`: at that very tick, it has not.
pub(super) fn is_drained(word: u64, scales: &Scales, now: Timestamp) -> bool {
    word == EMPTY || end(word) < scales.get(number(word)).ticks_at(now)
}

/// A decision, and the moment and the mark of what was charged by it.
pub(super) type Taken = (Decision, Option<(Timestamp, u64)>);

/// The transitions of a debt. An operation on a word is one of them, which is run again if the word
/// has changed meanwhile.
impl Numbered {
    /// Charges `cost` if it fits now or up to `within` later.
    pub(super) fn take(
        &self,
        view: &View<'_>,
        now: Timestamp,
        cost: Cost,
        within: Duration,
    ) -> Step<Taken> {
        let gcra = &self.gcra;
        let wait = gcra.wait_in(view, cost);
        let delay = match wait {
            Some(wait) if wait.is_zero() => wait,
            Some(wait) if wait <= within && wait <= gcra.longest_delay_in(view) => wait,
            _ => return Step::Keep((Decision::refused(gcra.usage_in(view), wait), None)),
        };
        let end = gcra.charged(view, cost);
        let decision = Decision::admitted(gcra.usage_in(&gcra.after(view, end)));
        Step::Write(end, (decision, Some((now.saturating_add(delay), end))))
    }

    /// Gives back up to `permits` of a charge that this quota made, and returns how many came back.
    ///
    /// At most the debt comes back, so this writes no word from before a claim, which a stalled swap
    /// may still expect.
    pub(super) fn give_back(&self, view: &View<'_>, charge: &Charge, permits: u64) -> Step<u64> {
        match self.gcra.refunded(view, charge, permits) {
            (_, 0) => Step::Keep(0),
            (end, back) => Step::Write(end, back),
        }
    }

    /// Returns how far the permits are used up.
    pub(super) fn usage(&self, view: &View<'_>) -> Step<Usage> {
        Step::Keep(self.gcra.usage_in(view))
    }
}

/// The operations on a word.
impl Numbered {
    /// Decides on a cost that fits now or not, in the common case: the word is `mine`, its debt is
    /// the own quota's and possible, and nobody changes it meanwhile. Returns the debt afterwards and
    /// whether the cost was charged, or `None` in any other case.
    ///
    /// Apart from [`update`](Self::update), and with nothing returned through memory, because that
    /// halves the time of a check: `cargo xtask bench memory`.
    #[inline(always)]
    pub(super) fn check(
        &self,
        cell: &AtomicU64,
        mine: impl Fn() -> bool,
        now: Timestamp,
        cost: Cost,
    ) -> Option<(View<'static>, bool)> {
        let found = cell.load(Ordering::Acquire);
        let is_own = number(found) == self.number || found == EMPTY;
        let view = self.gcra.view(end(found), now);
        if !is_own || !view.is_possible || !mine() {
            return None;
        }
        if self.gcra.room(cost).is_none_or(|room| view.debt() > room) {
            return Some((view, false));
        }
        let end = self.gcra.charged(&view, cost);
        let new = word(end, self.number);
        // Release, so that a thread that reads the word reads its number's scale too.
        let swap = cell.compare_exchange_weak(found, new, Ordering::AcqRel, Ordering::Relaxed);
        swap.ok().map(|_| (self.gcra.after(&view, end), true))
    }

    /// Returns the decision that left this debt.
    #[inline(always)]
    pub(super) fn decision(&self, (view, admitted): (View<'_>, bool), cost: Cost) -> Decision {
        let usage = self.gcra.usage_in(&view);
        if admitted {
            return Decision::admitted(usage);
        }
        match self.gcra.room(cost) {
            Some(room) => Decision::refused_until(usage, room),
            None => Decision::refused(usage, None),
        }
    }

    /// Applies a change to a word, again until nobody has changed the word meanwhile.
    pub(super) fn update<R, F: Fn() -> Timestamp + ?Sized>(
        &self,
        cell: &AtomicU64,
        scales: &Scales,
        now: &mut Now<'_, F>,
        change: &impl Fn(&View<'_>, Timestamp) -> Step<R>,
    ) -> R {
        loop {
            let found = cell.load(Ordering::Acquire);
            if let Some(result) = self.try_update(cell, found, scales, now, change) {
                return result;
            }
        }
    }

    /// Applies a change to a word that was found, and returns `None` if it has to be applied again.
    #[inline]
    pub(super) fn try_update<R, F: Fn() -> Timestamp + ?Sized>(
        &self,
        cell: &AtomicU64,
        found: u64,
        scales: &Scales,
        now: &mut Now<'_, F>,
        change: &impl Fn(&View<'_>, Timestamp) -> Step<R>,
    ) -> Option<R> {
        let view = self.gcra.view(end(found), now.at);
        let is_own = number(found) == self.number || found == EMPTY;
        if !is_own || !view.is_possible {
            return self.update_slowly(cell, found, scales, now, change);
        }
        match change(&view, now.at) {
            Step::Keep(result) => Some(result),
            Step::Write(end, result) => {
                let new = word(end, self.number);
                // Release, so that a thread that reads the word reads its number's scale too.
                let swap = cell.compare_exchange(found, new, Ordering::AcqRel, Ordering::Relaxed);
                swap.ok().map(|_| result)
            }
        }
    }

    /// Applies a change once to a word that is busy, another quota's or impossible, and returns
    /// `None` if it has to be applied again.
    ///
    /// An impossible debt is replaced by a full one, also if the change writes nothing.
    #[cold]
    #[inline(never)]
    fn update_slowly<R, F: Fn() -> Timestamp + ?Sized>(
        &self,
        cell: &AtomicU64,
        found: u64,
        scales: &Scales,
        now: &mut Now<'_, F>,
        change: &impl Fn(&View<'_>, Timestamp) -> Step<R>,
    ) -> Option<R> {
        if found == BUSY {
            yield_now();
            return None;
        }
        let writer = scales.get(number(found));
        let mut view = self.view(found, &writer, now.at);
        if !view.is_possible {
            // Another operation may have been later than the clock was read.
            now.read_again();
            view = self.view(found, &writer, now.at);
        }
        let is_possible = view.is_possible;
        if !is_possible {
            view = self.gcra.full(&view);
        }
        let (new, result) = match change(&view, now.at) {
            Step::Keep(result) if is_possible => return Some(result),
            Step::Keep(result) => (self.written(found, &view), result),
            Step::Write(end, result) => (word(end, self.number), result),
        };
        let swap = cell.compare_exchange(found, new, Ordering::AcqRel, Ordering::Relaxed);
        swap.ok().map(|_| result)
    }

    /// Returns the word that replaces an impossible one, `None` for a possible one.
    pub(super) fn repaired(&self, found: u64, scales: &Scales, now: Timestamp) -> Option<u64> {
        let writer = scales.get(number(found));
        let view = self.view(found, &writer, now);
        (!view.is_possible).then(|| self.written(found, &self.gcra.full(&view)))
    }

    /// Returns the word of a view of `found`.
    fn written(&self, found: u64, view: &View<'_>) -> u64 {
        word(view.end(), if view.is_foreign() { number(found) } else { self.number })
    }

    /// Returns the debt of a copy of a word: a full one, if it is impossible.
    pub(super) fn read<'s>(&self, word: u64, writer: &'s Scale, now: Timestamp) -> View<'s> {
        let view = self.view(word, writer, now);
        if view.is_possible { view } else { self.gcra.full(&view) }
    }

    /// Returns the debt of a word as this quota sees it.
    fn view<'s>(&self, word: u64, writer: &'s Scale, now: Timestamp) -> View<'s> {
        if number(word) == self.number || word == EMPTY {
            self.gcra.view(end(word), now)
        } else {
            self.gcra.view_of_another(end(word), writer, now)
        }
    }
}
