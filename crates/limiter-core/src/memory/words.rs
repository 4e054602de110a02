//! A bounded, lock-free table of words, one a key.
//!
//! A key has one 16-byte slot, its hash beside its word, in one of four lines of 64 bytes. A hit is
//! a load of the word, a load of the hash, and one compare-and-swap of the word. A slot whose debt
//! has drained is free for another key: the claim swaps the word to `BUSY`, stores the hash, and
//! stores the word. A swap by the former owner that was stalled meanwhile fails, because the new
//! word is later than any word from before the claim: its debt ends after a moment at which the old
//! one had drained, and refunds and resets leave a word no earlier than now.
//!
//! Claims of one key are serialised by a lock, so no key gets two slots. If all slots of a key are
//! taken by debtors, the key shares the overflow word of its first line with other such keys. That
//! word keeps the slowest pace, so no debt drains faster for being shared, and a key that finds a
//! free slot later starts from it.

use std::{sync::Arc, time::Duration};

use super::{
    scales::{Numbered, Scales},
    table::part_of,
    word::{BUSY, EMPTY, Now, Outcome, end, number, swap, word},
};
use crate::{
    Cost, Decision, Error, Timestamp, Usage,
    algorithm::{Gcra, Tat, Transition},
    sync::{AtomicU64, Mutex, Ordering, lock},
};

/// The words of many keys, under one quota.
#[derive(Clone)]
pub(super) struct Words {
    /// Pairs of neighbours.
    lines: Arc<[Line]>,
    /// Serialise the claims of a key.
    claims: Arc<[Mutex<()>]>,
    pub(super) own: Numbered,
}

/// In models, one slot, for which all keys compete.
const SLOTS: usize = if cfg!(loom) { 1 } else { 3 };
const CLAIMS: usize = if cfg!(loom) { 1 } else { 64 };

/// How many lines a key can have its slot in: two neighbours, twice.
const CHOICES: usize = NEIGHBOURS * NEIGHBOURS;
const NEIGHBOURS: usize = if cfg!(loom) { 1 } else { 2 };

#[derive(Default)]
#[repr(align(64))]
struct Line {
    slots: [Slot; SLOTS],
    overflow: AtomicU64,
}

#[derive(Default)]
struct Slot {
    /// 0 until the slot is first claimed.
    hash: AtomicU64,
    word: AtomicU64,
}

impl Words {
    /// Returns a table with room for `keys` debtors: 1.8 slots for each, since lines do not fill
    /// evenly, and about 38 bytes.
    pub(super) fn new(gcra: &Gcra, keys: usize) -> Self {
        let lines = (keys * 9 / 5).div_ceil(SLOTS).next_multiple_of(NEIGHBOURS);
        let lines = (0..lines).map(|_| Line::default()).collect();
        let claims = (0..CLAIMS).map(|_| Mutex::default()).collect();
        Self { lines, claims, own: Scales::first(gcra) }
    }

    /// Sets the quota. Fails as [`Scales::number`] does.
    pub(super) fn set_quota(&mut self, gcra: &Gcra, now: Timestamp) -> Result<(), Error> {
        self.own = self.own.scales.number(gcra, now, |unused| self.erase(unused))?;
        Ok(())
    }

    /// Decides on a cost in the common case: the key has its slot in its first line, its debt is the
    /// own quota's and possible, and nobody changes it meanwhile. Returns when the debt ends
    /// afterwards and whether the cost was charged, or `None` in any other case.
    ///
    /// Apart from [`take`](Self::take), and with nothing returned through memory, because that
    /// halves the time of a check: `cargo xtask bench memory`.
    #[inline(always)]
    pub(super) fn check(&self, hash: u64, now: Timestamp, cost: Cost) -> Option<(u64, bool)> {
        let Numbered { gcra, number: own, .. } = &self.own;
        let (cell, found) = self.line(hash, 0).word_of(hash)?;
        if number(found) != *own && found != EMPTY {
            return None;
        }
        let (end, admitted) = gcra.check(end(found), now, cost)?;
        let is_current = if admitted {
            swap(cell, found, word(end, *own))
        } else {
            cell.load(Ordering::Acquire) == found
        };
        is_current.then_some((end, admitted))
    }

    /// Charges a cost if it fits. A key without a slot claims one, or shares its debt.
    #[inline(never)]
    pub(super) fn take(
        &self,
        hash: u64,
        clock: Now<'_>,
        due: Option<Timestamp>,
        cost: Cost,
        within: Duration,
    ) -> Outcome {
        let own = &self.own;
        let take = |tat: &mut Tat, now| own.gcra.decide(tat, due.unwrap_or(now), cost, within);
        // Written by the change, because to return it through the change takes a third longer.
        let mut taken = (Decision::refused(Usage::new(0, 0, Duration::ZERO), None), None);
        loop {
            if self.change(hash, clock, |tat, now| taken = take(tat, now)).is_some() {
                return taken;
            }
            let _claim = lock(part_of(&self.claims, hash));
            if self.find(hash).is_some() {
                continue;
            }
            let overflow = &self.line(hash, 0).overflow;
            own.repair(overflow, clock);
            let shared = overflow.load(Ordering::Acquire);
            let now = clock();
            let start = self.start(shared, now);
            let at = due.unwrap_or(now);
            let mut new = match own.gcra.check(0, at, cost) {
                // Apart, because it takes three quarters of the time.
                Some((end, true)) if start == EMPTY => {
                    taken = own.outcome(end, at, cost);
                    word(end, own.number)
                }
                _ => own.changed(start, now, |tat, now| taken = take(tat, now)).0,
            };
            if taken.1.is_none() {
                return taken;
            }
            let scale = &own.gcra.scale;
            if let Some(slot) = self.claim(hash, scale.ticks_at(now)) {
                // Later than any word from before the claim, also if it was due before.
                let earliest = word(scale.ticks_at(now), own.number);
                slot.hash.store(hash, Ordering::Release);
                slot.word.store(new.max(earliest), Ordering::Release);
                return taken;
            }
            self.slots(hash).for_each(|slot| own.repair(&slot.word, clock));
            // The overflow keeps the slowest pace of the quotas that charged it. It is charged under
            // the lock, so that the key does not start in a slot meanwhile.
            let writer = own.scales.get(number(start));
            if writer.increment > scale.increment {
                let end = end(start).saturating_add(cost.get().saturating_mul(writer.increment));
                if end > writer.ticks_at(now) + writer.reach {
                    // At its pace, the word can't hold this debt.
                    let usage = own.gcra.usage(&own.tat(start), now);
                    let wait = writer.until(end - writer.reach, now.as_nanos());
                    return (Decision::refused(usage, Some(wait)), None);
                }
                new = word(end, number(start));
            }
            if swap(overflow, shared, new) {
                return taken;
            }
        }
    }

    /// Returns the state of a key, or that from which it starts, and the present.
    pub(super) fn read(&self, hash: u64, clock: Now<'_>) -> (Tat, Timestamp) {
        self.change(hash, clock, |tat, now| (*tat, now)).unwrap_or_else(|| {
            let shared = self.line(hash, 0).overflow.load(Ordering::Acquire);
            let now = clock();
            self.own.changed(self.start(shared, now), now, |tat, now| (*tat, now)).1
        })
    }

    /// Changes the state of a key, unless the key has no slot. A key without one shares its debt with
    /// others.
    pub(super) fn change<R>(
        &self,
        hash: u64,
        clock: Now<'_>,
        mut change: impl FnMut(&mut Tat, Timestamp) -> R,
    ) -> Option<R> {
        while let Some((cell, found)) = self.find(hash) {
            let result = self.own.try_update(cell, found, clock, &mut change);
            if result.is_some() {
                return result;
            }
        }
        None
    }

    /// Makes a key fresh, unless it has no slot.
    pub(super) fn reset(&self, hash: u64, clock: Now<'_>) {
        let scale = self.own.gcra.scale;
        // No earlier than now: a stalled swap may still expect a word from before a claim.
        self.change(hash, clock, |tat, now| *tat = Tat { at: scale.ticks_at(now), scale });
    }

    /// Empties all words of a number of which no debt is left.
    fn erase(&self, erased: u8) {
        for Line { slots, overflow } in &*self.lines {
            for cell in slots.iter().map(|slot| &slot.word).chain([overflow]) {
                let found = cell.load(Ordering::Acquire);
                if number(found) == erased {
                    // If it has changed meanwhile, its number has too.
                    swap(cell, found, EMPTY);
                }
            }
        }
    }

    /// Returns the word from which a key starts that shares a word with others.
    fn start(&self, shared: u64, now: Timestamp) -> u64 {
        let is_drained = self.own.free_since(shared) <= self.own.gcra.scale.ticks_at(now);
        if is_drained { EMPTY } else { shared }
    }

    /// Returns the word of a key that has a slot, and what was found in it.
    fn find(&self, hash: u64) -> Option<(&AtomicU64, u64)> {
        (0..CHOICES).find_map(|choice| self.line(hash, choice).word_of(hash))
    }

    fn slots(&self, hash: u64) -> impl Iterator<Item = &Slot> {
        (0..CHOICES).flat_map(move |choice| &self.line(hash, choice).slots)
    }

    /// Claims the slot that has been free for longest, so that a key that comes back soon finds its
    /// own slot. Another choice takes half as long again with 10,000 keys that recover at once
    /// (`cargo xtask bench memory`).
    fn claim(&self, hash: u64, present: u64) -> Option<&Slot> {
        loop {
            let mut oldest: Option<(u64, &Slot, u64)> = None;
            for slot in self.slots(hash) {
                let found = slot.word.load(Ordering::Acquire);
                let since = self.own.free_since(found);
                if since <= present && oldest.is_none_or(|oldest| since < oldest.0) {
                    oldest = Some((since, slot, found));
                }
            }
            let (_, slot, found) = oldest?;
            if swap(&slot.word, found, BUSY) {
                return Some(slot);
            }
        }
    }

    /// Returns one of the lines that a key can have its slot in.
    #[inline]
    fn line(&self, hash: u64, choice: usize) -> &Line {
        // The second pair is independent of the first.
        let mixed = if choice < 2 { hash } else { hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) };
        // The high bits choose: a multiplication maps them onto any number of lines.
        let index = (u128::from(mixed) * self.lines.len() as u128) >> 64;
        #[expect(
            clippy::indexing_slicing,
            clippy::cast_possible_truncation,
            reason = "a 64-bit hash times the length, over 2^64, is below the length, which is even"
        )]
        &self.lines[index as usize ^ (choice & 1)]
    }
}

impl Line {
    #[inline]
    fn word_of(&self, hash: u64) -> Option<(&AtomicU64, u64)> {
        self.slots.iter().find_map(|slot| {
            // The word before the hash, because a claim for this key in between changes the word,
            // and no operation acts on a word that has changed.
            let found = slot.word.load(Ordering::Acquire);
            (slot.hash.load(Ordering::Acquire) == hash).then_some((&slot.word, found))
        })
    }
}
