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

use alloc::{boxed::Box, sync::Arc};
use core::{fmt, time::Duration};

use super::{
    scales::{Numbered, Scales},
    word::{BUSY, EMPTY, Now, Step, Taken, end, is_drained, number, word},
};
use crate::{
    Cost, Decision, Timestamp, Usage,
    algorithm::View,
    sync::{AtomicU64, Mutex, Ordering, lock, yield_now},
};

/// The words of many keys.
pub(super) struct Words {
    /// An even number of lines.
    lines: Box<[Line]>,
    /// Serialise the claims of a key.
    claims: Box<[Mutex<()>]>,
    scales: Arc<Scales>,
}

/// In models, one slot a key, for which keys compete.
const SLOTS: usize = if cfg!(loom) { 1 } else { 3 };
const CLAIMS: usize = if cfg!(loom) { 1 } else { 64 };

/// How many lines a key can have its slot in: two neighbours, twice.
const CHOICES: usize = if cfg!(loom) { 1 } else { 4 };

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
    pub(super) fn new(keys: usize, scales: Arc<Scales>) -> Self {
        let lines = (keys * 9 / 5).div_ceil(SLOTS).next_multiple_of(2).max(2);
        let lines = (0..lines).map(|_| Line::new()).collect();
        Self { lines, claims: (0..CLAIMS).map(|_| Mutex::new(())).collect(), scales }
    }

    pub(super) const fn scales(&self) -> &Arc<Scales> {
        &self.scales
    }

    /// Decides on a cost in the common case, in which the key has its slot in its first line.
    #[inline(always)]
    pub(super) fn check(
        &self,
        hash: u64,
        own: &Numbered,
        now: Timestamp,
        cost: Cost,
    ) -> Option<(View<'static>, bool)> {
        let hash = hash.max(1);
        let slot = self.line(hash, 0).slot_of(hash)?;
        own.check(&slot.word, || slot.hash.load(Ordering::Acquire) == hash, now, cost)
    }

    /// Charges a cost if it fits.
    #[inline(never)]
    pub(super) fn take<F: Fn() -> Timestamp + ?Sized>(
        &self,
        hash: u64,
        own: &Numbered,
        now: &mut Now<'_, F>,
        cost: Cost,
        within: Duration,
    ) -> Taken {
        let hash = hash.max(1);
        let take = |view: &View<'_>, now| own.take(view, now, cost, within);
        loop {
            if let Some(taken) = self.change(hash, own, now, &take) {
                return taken;
            }
            let _claim = lock(self.claim_lock(hash));
            if self.find(hash).is_some() {
                continue;
            }
            self.repair_overflow(hash, own, now);
            let Some(slot) = self.claim(hash, own, now.present) else {
                // Under the lock, so that the key does not start in a slot meanwhile.
                return self.take_from_overflow(hash, own, now.at, cost, within);
            };
            let start = self.debt_of_newcomer(hash, now.present);
            match take(&own.read(start, &self.scales.get(number(start)), now.at), now.at) {
                Step::Write(end, taken) => {
                    slot.hash.store(hash, Ordering::Release);
                    slot.word.store(word(end, own.number), Ordering::Release);
                    return taken;
                }
                Step::Keep(taken) => {
                    // A refusal leaves the former owner as fresh as it was.
                    let ticks = own.gcra.scale().ticks_at(now.present);
                    slot.word.store(word(ticks, own.number), Ordering::Release);
                    return taken;
                }
            }
        }
    }

    /// Returns how far the permits are used up.
    pub(super) fn peek<F: Fn() -> Timestamp + ?Sized>(
        &self,
        hash: u64,
        own: &Numbered,
        now: &mut Now<'_, F>,
    ) -> Usage {
        let usage = self.change(hash, own, now, &|view: &View<'_>, _| own.usage(view));
        usage.unwrap_or_else(|| {
            let shared = self.debt_of_newcomer(hash.max(1), now.present);
            own.gcra.usage_in(&own.read(shared, &self.scales.get(number(shared)), now.at))
        })
    }

    /// Applies a change to a key that has a slot. A key without one shares its debt with others.
    pub(super) fn change<R, F: Fn() -> Timestamp + ?Sized>(
        &self,
        hash: u64,
        own: &Numbered,
        now: &mut Now<'_, F>,
        change: &impl Fn(&View<'_>, Timestamp) -> Step<R>,
    ) -> Option<R> {
        let hash = hash.max(1);
        while let Some(slot) = self.find(hash) {
            let found = slot.word.load(Ordering::Acquire);
            // Otherwise the slot has been claimed for another key. A busy word may be this key's.
            if found == BUSY || slot.hash.load(Ordering::Acquire) == hash {
                let result = own.try_update(&slot.word, found, &self.scales, now, change);
                if result.is_some() {
                    return result;
                }
            }
        }
        None
    }

    /// Returns the word of a key.
    pub(super) fn snapshot(&self, hash: u64, now: Timestamp) -> u64 {
        let hash = hash.max(1);
        while let Some(slot) = self.find(hash) {
            let found = slot.word.load(Ordering::Acquire);
            if found != BUSY && slot.hash.load(Ordering::Acquire) == hash {
                return found;
            }
            yield_now();
        }
        self.debt_of_newcomer(hash, now)
    }

    /// Removes a number from all words: none of its debts is left.
    pub(super) fn erase(&self, erased: u8) {
        let erase = |cell: &AtomicU64| {
            let found = cell.load(Ordering::Acquire);
            if found != EMPTY && found != BUSY && number(found) == erased {
                // If it has changed meanwhile, its number has too.
                let _ = cell.compare_exchange(found, EMPTY, Ordering::AcqRel, Ordering::Relaxed);
            }
        };
        for line in &self.lines {
            line.slots.iter().for_each(|slot| erase(&slot.word));
            erase(&line.overflow);
        }
    }

    /// Charges the word that keys without a slot share. It keeps the slowest pace of the quotas that
    /// charged it.
    fn take_from_overflow(
        &self,
        hash: u64,
        own: &Numbered,
        now: Timestamp,
        cost: Cost,
        within: Duration,
    ) -> Taken {
        let overflow = &self.line(hash, 0).overflow;
        loop {
            let found = overflow.load(Ordering::Acquire);
            let writer = self.scales.get(number(found));
            let view = own.read(found, &writer, now);
            let (ends, taken) = match own.take(&view, now, cost, within) {
                Step::Keep(taken) => return taken,
                Step::Write(end, taken) => (end, taken),
            };
            let is_slower = writer.increment() > own.gcra.scale().increment();
            let new = if is_slower && !is_drained(found, &self.scales, now) {
                let end = end(found).saturating_add(cost.get().saturating_mul(writer.increment()));
                let latest = writer.ticks_at(now) + writer.reach();
                if end > latest {
                    // At its pace, the word can't hold this debt.
                    let wait = writer.until(end - writer.reach(), now.as_nanos());
                    return (Decision::refused(own.gcra.usage_in(&view), Some(wait)), None);
                }
                word(end, number(found))
            } else {
                word(ends, own.number)
            };
            let swap = overflow.compare_exchange(found, new, Ordering::AcqRel, Ordering::Relaxed);
            if swap.is_ok() {
                return taken;
            }
        }
    }

    /// Replaces an impossible debt of the keys without a slot, also if they are refused: otherwise it
    /// would be impossible until the clock has caught up.
    fn repair_overflow<F: Fn() -> Timestamp + ?Sized>(
        &self,
        hash: u64,
        own: &Numbered,
        now: &mut Now<'_, F>,
    ) {
        let overflow = &self.line(hash, 0).overflow;
        let found = overflow.load(Ordering::Acquire);
        if found == EMPTY || own.repaired(found, &self.scales, now.present).is_none() {
            return;
        }
        now.read_present();
        if let Some(new) = own.repaired(found, &self.scales, now.present) {
            // If it has changed meanwhile, another request has replaced it.
            let _ = overflow.compare_exchange(found, new, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Returns the word that a key without a slot starts from: what those of its line share.
    fn debt_of_newcomer(&self, hash: u64, now: Timestamp) -> u64 {
        let shared = self.line(hash, 0).overflow.load(Ordering::Acquire);
        if is_drained(shared, &self.scales, now) { EMPTY } else { shared }
    }

    /// Returns the slot of a key.
    fn find(&self, hash: u64) -> Option<&Slot> {
        (0..CHOICES).find_map(|choice| self.line(hash, choice).slot_of(hash))
    }

    /// Claims the slot that has been free for longest, so that a key that comes back soon finds its
    /// own slot. Another choice takes half as long again with 10,000 keys that recover at once
    /// (`cargo xtask bench memory`).
    fn claim(&self, hash: u64, own: &Numbered, now: Timestamp) -> Option<&Slot> {
        let present = own.gcra.scale().ticks_at(now);
        let slots = || (0..CHOICES).flat_map(|choice| &self.line(hash, choice).slots);
        loop {
            let mut oldest: Option<(u64, &Slot, u64)> = None;
            for slot in slots() {
                let found = slot.word.load(Ordering::Acquire);
                let since = self.free_since(found, own);
                let is_free = found != BUSY && since <= present;
                if is_free && oldest.is_none_or(|oldest| since < oldest.0) {
                    oldest = Some((since, slot, found));
                }
            }
            let Some((_, slot, found)) = oldest else {
                slots().for_each(|slot| self.bound(slot, now));
                return None;
            };
            let (set, failed) = (Ordering::AcqRel, Ordering::Relaxed);
            if slot.word.compare_exchange(found, BUSY, set, failed).is_ok() {
                return Some(slot);
            }
        }
    }

    /// Returns from when on the debt of a word [is drained](is_drained), in ticks of the quota that
    /// asks.
    fn free_since(&self, found: u64, own: &Numbered) -> u64 {
        match number(found) {
            _ if found == EMPTY => 0,
            number if number == own.number => end(found) + 1,
            number => {
                let since = self.scales.get(number).nanos_at(end(found) + 1);
                own.gcra.scale().ticks_rounded_up(since)
            }
        }
    }

    /// Shortens an impossible debt, from before a step back of the clock, to the longest of its scale
    /// from now on: its key may never come back to be repaired.
    fn bound(&self, slot: &Slot, now: Timestamp) {
        let found = slot.word.load(Ordering::Acquire);
        let scale = self.scales.get(number(found));
        let latest = scale.ticks_at(now) + scale.reach();
        if found != BUSY && end(found) > latest {
            let new = word(latest, number(found));
            // If it has changed meanwhile, its key has come back.
            let swap = (Ordering::AcqRel, Ordering::Relaxed);
            let _ = slot.word.compare_exchange(found, new, swap.0, swap.1);
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
