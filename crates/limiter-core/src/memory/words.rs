//! A bounded, lock-free table of words, one a key.
//!
//! A key has one 16-byte slot, its hash beside its word, in one of four lines of 64 bytes. A hit is
//! a load of the hash, a load of the word, and one compare-and-swap of the word. A slot whose debt
//! has drained is free for another key: the claim swaps the word to `BUSY`, stores the hash, and
//! stores the word. A swap by the former owner that was stalled meanwhile fails, because the new
//! word is later than any word from before the claim: its debt ends after a moment at which the old
//! one had drained, and refunds and resets leave a word no earlier than now.
//!
//! Claims of one key are serialised by a lock, so no key gets two slots. If all slots of a key are
//! taken by debtors, the key shares the overflow word of its first line with other such keys. That
//! word keeps the slowest pace, so no debt drains faster for being shared, and a key that finds a
//! free slot later starts from it.

use alloc::boxed::Box;
use core::fmt;

use super::{
    scales::Numbered,
    word::{BUSY, Change, EMPTY, Outcome, When, end, erase, number, swap, word},
};
use crate::{
    Cost, Decision, Timestamp,
    algorithm::{State, Transition},
    sync::{AtomicU64, Mutex, Ordering, lock},
};

/// The words of many keys.
pub(super) struct Words {
    /// Pairs of neighbours.
    lines: Box<[Line]>,
    /// Serialise the claims of a key.
    claims: Box<[Mutex<()>]>,
}

/// In models, one slot, for which all keys compete.
const SLOTS: usize = if cfg!(loom) { 1 } else { 3 };
const CLAIMS: usize = if cfg!(loom) { 1 } else { 64 };

/// How many lines a key can have its slot in: two neighbours, twice.
const CHOICES: usize = NEIGHBOURS * NEIGHBOURS;
const NEIGHBOURS: usize = if cfg!(loom) { 1 } else { 2 };

#[repr(align(64))]
struct Line {
    slots: [Slot; SLOTS],
    overflow: AtomicU64,
}

struct Slot {
    /// 0 until the slot is first claimed.
    hash: AtomicU64,
    word: AtomicU64,
}

impl Words {
    /// Returns a table with room for `keys` debtors: 1.8 slots for each, since lines do not fill
    /// evenly, and about 38 bytes.
    pub(super) fn new(keys: usize) -> Self {
        let lines = (keys * 9 / 5).div_ceil(SLOTS).next_multiple_of(NEIGHBOURS);
        let lines = (0..lines).map(|_| Line::new()).collect();
        Self { lines, claims: (0..CLAIMS).map(|_| Mutex::new(())).collect() }
    }

    /// Decides on a cost in the common case, in which the key has its slot in its first line.
    #[inline(always)]
    pub(super) fn check(
        &self,
        hash: u64,
        own: &Numbered,
        now: Timestamp,
        cost: Option<Cost>,
    ) -> Option<(u64, bool)> {
        let hash = hash.max(1);
        let slot = self.line(hash, 0).slot_of(hash)?;
        own.check(&slot.word, || slot.hash.load(Ordering::Acquire) == hash, now, cost)
    }

    /// Charges a cost if it fits. A key without a slot claims one, or shares its debt.
    #[inline(never)]
    pub(super) fn take(
        &self,
        hash: u64,
        own: &Numbered,
        when: When<'_>,
        cost: Cost,
        taken: &mut Outcome,
        take: impl Fn(&mut State, Timestamp) -> Outcome,
    ) {
        let hash = hash.max(1);
        loop {
            if self.change(hash, own, when, &mut |state, now| *taken = take(state, now)) {
                return;
            }
            let _claim = lock(self.claim_lock(hash));
            if self.find(hash).is_some() {
                continue;
            }
            let overflow = &self.line(hash, 0).overflow;
            own.repair(overflow, when);
            let (present, shared) = ((when.clock)(), overflow.load(Ordering::Acquire));
            let start = own.undrained(shared, present);
            let when = When { at: when.at.or(Some(present)), ..when };
            let at = when.at.unwrap_or(present);
            let mut new =
                if let (EMPTY, Some((end, true))) = (start, own.gcra.check(0, at, Some(cost))) {
                    // Apart, because it takes three quarters of the time.
                    *taken = own.outcome(end, at, cost);
                    word(end, own.number)
                } else {
                    own.changed(start, when, &mut |state, now| *taken = take(state, now))
                };
            if taken.1.is_none() {
                return;
            }
            if let Some(slot) = self.claim(hash, own, present) {
                // Later than any word from before the claim, also if it was due before.
                let earliest = word(own.gcra.scale().ticks_at(present), own.number);
                slot.hash.store(hash, Ordering::Release);
                slot.word.store(new.max(earliest), Ordering::Release);
                return;
            }
            self.slots(hash).for_each(|slot| own.repair(&slot.word, when));
            // The overflow keeps the slowest pace of the quotas that charged it. It is charged under
            // the lock, so that the key does not start in a slot meanwhile.
            let writer = own.scales.get(number(start));
            if writer.increment() > own.gcra.scale().increment() {
                let end = end(start).saturating_add(cost.get().saturating_mul(writer.increment()));
                if end > writer.ticks_at(present) + writer.reach() {
                    // At its pace, the word can't hold this debt.
                    let usage = own.gcra.usage(&own.tat(start), present);
                    let wait = writer.until(end - writer.reach(), present.as_nanos());
                    *taken = (Decision::refused(usage, Some(wait)), None);
                    return;
                }
                new = word(end, number(start));
            }
            if swap(overflow, shared, new) {
                return;
            }
        }
    }

    /// Reads the state of a key, or that from which it starts.
    pub(super) fn read(&self, hash: u64, own: &Numbered, when: When<'_>, read: Change<'_>) {
        if !self.change(hash, own, when, read) {
            let shared = self.line(hash.max(1), 0).overflow.load(Ordering::Acquire);
            let start = own.undrained(shared, (when.clock)());
            own.changed(start, when, read);
        }
    }

    /// Changes the state of a key if it has a slot, and returns whether it has. A key without one
    /// shares its debt with others.
    pub(super) fn change(
        &self,
        hash: u64,
        own: &Numbered,
        when: When<'_>,
        change: Change<'_>,
    ) -> bool {
        let hash = hash.max(1);
        while let Some(slot) = self.find(hash) {
            let found = slot.word.load(Ordering::Acquire);
            // Otherwise the slot has been claimed for another key. A busy word may be this key's.
            if (found == BUSY || slot.hash.load(Ordering::Acquire) == hash)
                && own.try_update(&slot.word, found, when, change)
            {
                return true;
            }
        }
        false
    }

    /// Removes a number from all words: none of its debts is left.
    pub(super) fn erase(&self, erased: u8) {
        for line in &self.lines {
            line.slots.iter().for_each(|slot| erase(&slot.word, erased));
            erase(&line.overflow, erased);
        }
    }

    /// Returns the slot of a key.
    fn find(&self, hash: u64) -> Option<&Slot> {
        (0..CHOICES).find_map(|choice| self.line(hash, choice).slot_of(hash))
    }

    fn slots(&self, hash: u64) -> impl Iterator<Item = &Slot> {
        (0..CHOICES).flat_map(move |choice| &self.line(hash, choice).slots)
    }

    /// Claims the slot that has been free for longest, so that a key that comes back soon finds its
    /// own slot. Another choice takes half as long again with 10,000 keys that recover at once
    /// (`cargo xtask bench memory`).
    fn claim(&self, hash: u64, own: &Numbered, now: Timestamp) -> Option<&Slot> {
        let present = own.gcra.scale().ticks_at(now);
        loop {
            let mut oldest: Option<(u64, &Slot, u64)> = None;
            for slot in self.slots(hash) {
                let found = slot.word.load(Ordering::Acquire);
                let since = own.free_since(found);
                let is_free = found != BUSY && since <= present;
                if is_free && oldest.is_none_or(|oldest| since < oldest.0) {
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

    fn claim_lock(&self, hash: u64) -> &Mutex<()> {
        #[expect(
            clippy::indexing_slicing,
            clippy::cast_possible_truncation,
            reason = "the remainder is below the length"
        )]
        &self.claims[hash as usize % CLAIMS]
    }
}

impl Line {
    fn new() -> Self {
        let slot = |()| Slot { hash: AtomicU64::new(0), word: AtomicU64::new(EMPTY) };
        Self { slots: [(); SLOTS].map(slot), overflow: AtomicU64::new(EMPTY) }
    }

    #[inline]
    fn slot_of(&self, hash: u64) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.hash.load(Ordering::Acquire) == hash)
    }
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Words").field("lines", &self.lines.len()).finish_non_exhaustive()
    }
}
