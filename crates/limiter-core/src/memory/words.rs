//! A bounded table of GCRA's debts, one [slot](Slot) a key.
//!
//! A key has its slot in one of three cache lines, mostly in its first. A check that finds it there takes no lock.
//! Everything else happens under a lock that the key always takes, so no key gets two slots: a slot whose debt has drained
//! is claimed.
//!
//! If all slots of a key are taken by debtors, the key has no state.
//!
//! A slot is a debt in two 64-bit atomics. The tag is the hash of the key, combined with the salt of its limit. The word is the
//! tick at which the debt ends.
//!
//! A charge is one compare-and-swap of the word. It counts if the tag is still the same afterwards. Any other change first
//! holds the slot: it swaps the word to `BUSY`, compares the tag, and then stores the tag and the word. So
//! if a charge is stalled while its slot changes hands, its swap fails; or, if the new word happens to equal the one that it
//! found, it raises a debt that is not its own and is repeated, which admits nothing.

use core::{mem, ptr, time::Duration};

use super::key_hasher::{index, second_index};
use crate::{
    Cost, Decision, Timestamp,
    algorithms::{Gcra, State, Tat},
    sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock, yield_now},
    ticks::{left, ticks, time},
};

pub(super) struct Words {
    /// In pairs of neighbours.
    lines: Box<[[Line; NEIGHBOURS]]>,
    /// Each is the lock of the keys with a part of the hashes, whose first lines are neighbours.
    locks: Box<[Mutex<()>]>,
    /// The largest debt that any quota of the limiter can leave, in ticks. Slots of other keys are judged by it.
    reach: AtomicU64,
}

/// In models, one slot, for which all keys compete.
const SLOTS: usize = if cfg!(loom) { 1 } else { 4 };

const NEIGHBOURS: usize = if cfg!(loom) { 1 } else { 2 };

const MOST_LOCKS: usize = 256;

/// Returns how many pairs of lines have 2.35 slots for each of so many keys, rounded up.
const fn pairs_for(keys: usize) -> usize {
    // 47 slots for 20 keys. In two parts, because 47 times the largest capacity overflows 32 bits.
    let keys_of_47_pairs = 20 * SLOTS * NEIGHBOURS;
    let (whole, rest) = (keys / keys_of_47_pairs, keys % keys_of_47_pairs);
    47 * whole + (47 * rest).div_ceil(keys_of_47_pairs)
}

/// Fails to compile if it overflows.
#[cfg(not(loom))]
const _: usize = pairs_for(usize::MAX);

#[derive(Default)]
#[repr(align(64))]
struct Line([Slot; SLOTS]);

/// A slot, and the tag and the word that were found in it. A change that they lead to checks that they belonged together.
type Found<'a> = (&'a Slot, (u64, u64));

impl Words {
    /// Returns a table with room for `keys` debtors. It takes 40 bytes a key: 2.35 slots, since lines do not fill evenly.
    pub(super) fn new(keys: usize) -> Self {
        let pairs = if cfg!(loom) { 1 } else { pairs_for(keys) };
        Self {
            lines: (0..pairs).map(|_| Default::default()).collect(),
            locks: (0..pairs.min(MOST_LOCKS)).map(|_| Mutex::default()).collect(),
            reach: AtomicU64::new(0),
        }
    }

    /// Lets a quota use the table.
    pub(super) fn add(&self, gcra: &Gcra) {
        if gcra.longest_debt() > self.reach.load(Ordering::Relaxed) {
            self.reach.fetch_max(gcra.longest_debt(), Ordering::Relaxed);
        }
    }

    /// Decides on a cost in the common case: the key has a slot, its debt is possible, and no other thread holds it or
    /// changes its owner meanwhile. Returns the decision and when the debt ends afterwards, or `None` in any other case.
    ///
    /// Without a lock, because that halves the time of a check: `cargo xtask bench memory`.
    #[inline(always)]
    pub(super) fn check(
        &self,
        gcra: &Gcra,
        hash: u64,
        now: Timestamp,
        cost: Cost,
    ) -> Option<(Decision, u64)> {
        let OwnSlot { slot, tag } = self.own(hash)?;
        loop {
            let found = slot.word();
            if found == BUSY {
                return None;
            }
            let (decision, tat) = gcra.check(found, ticks(now), cost)?;
            let counts = !decision.is_admitted() || slot.charge(found, tat);
            if slot.tag() != tag {
                return None;
            }
            if counts {
                return Some((decision, tat));
            }
            // Another thread has charged the key meanwhile.
        }
    }

    /// Returns the slot of a key that has one.
    #[inline(always)]
    pub(super) fn own(&self, hash: u64) -> Option<OwnSlot<'_>> {
        let tag = tag(hash);
        let is_own = |slot: &&Slot| slot.tag() == tag;
        let in_others = || self.others(hash).iter().find_map(|line| line.0.iter().find(is_own));
        let slot = self.first(hash).0.iter().find(is_own).or_else(in_others)?;
        Some(OwnSlot { slot, tag })
    }

    /// Returns the index of the lock of a key against other keys that take or leave a slot.
    pub(super) fn lock_of(&self, hash: u64) -> usize {
        index(hash, self.locks.len())
    }

    #[expect(clippy::indexing_slicing, reason = "the index is below the length")]
    pub(super) fn lock(&self, index: usize) -> MutexGuard<'_, ()> {
        lock(&self.locks[index])
    }

    /// Holds the slot of a key that has one. The key is locked.
    #[inline]
    pub(super) fn hold(&self, hash: u64) -> Option<Held<'_>> {
        loop {
            let OwnSlot { slot, tag } = self.own(hash)?;
            let found = (tag, slot.word());
            if slot.hold(found) {
                return Some(Held { slot, found });
            }
            yield_now();
        }
    }

    /// Holds a free slot for a key that has none, or returns the time until one is free. The key is locked.
    #[inline]
    pub(super) fn hold_free(
        &self,
        hash: u64,
        now: Timestamp,
        begin_epoch: impl Fn(),
    ) -> Result<Held<'_>, Duration> {
        while let Some((slot, found)) = self.free(hash, ticks(now)) {
            if slot.hold(found) {
                return Ok(Held { slot, found });
            }
        }
        Err(self.free_after(hash, ticks(now), begin_epoch))
    }

    /// Lowers the debt of a key by what is left of a charge, if that still counts. The moment is read while the key is held:
    /// what has drained meanwhile may have been charged again.
    pub(super) fn lower(
        &self,
        hash: u64,
        left_of_charge: impl FnOnce(u64) -> u64,
        counts: impl FnOnce() -> bool,
        clock: impl FnOnce() -> Timestamp,
    ) {
        let _lock = self.lock(self.lock_of(hash));
        if let Some(held) = self.hold(hash)
            && counts()
        {
            let now = clock();
            let word = held.found.1.wrapping_sub(left_of_charge(ticks(now)));
            held.release(hash, &State::Gcra(Tat(Some(word))), now);
        }
    }

    /// Makes the state of a key fresh.
    pub(super) fn reset(&self, hash: u64, clock: impl Fn() -> Timestamp) {
        let _lock = self.lock(self.lock_of(hash));
        if let Some(held) = self.hold(hash) {
            held.release(hash, &State::Fresh, clock());
        }
    }

    /// Returns a free slot: in the first line, so that later checks find it at once, unless another
    /// line has more and this is its last.
    fn free(&self, hash: u64, now: u64) -> Option<Found<'_>> {
        let (mut most, mut place) = self.first(hash).free(now);
        if most < 2 {
            for line in self.others(hash) {
                let (free, other) = line.free(now);
                if free > most {
                    (most, place) = (free, other);
                }
            }
        }
        place
    }

    #[inline]
    fn slots(&self, hash: u64) -> impl Iterator<Item = &Slot> {
        self.first(hash).0.iter().chain(self.others(hash).iter().flat_map(|line| &line.0))
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "the index is below the length")]
    fn first(&self, hash: u64) -> &Line {
        &self.lines.as_flattened()[index(hash, self.lines.len() * NEIGHBOURS)]
    }

    /// Returns a pair of neighbours, which are loaded together, independent of the first line.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "the index is below the length")]
    fn others(&self, hash: u64) -> &[Line; NEIGHBOURS] {
        &self.lines[second_index(hash, self.lines.len())]
    }

    /// Returns the time until the first of a key's slots is free: at least a tick, because none was free a moment ago.
    /// Impossible debts, whose keys may never come back for it, are shortened to the longest ones.
    #[inline(never)]
    fn free_after(&self, hash: u64, now: u64, begin_epoch: impl Fn()) -> Duration {
        let (mut first, reach) = (None, self.reach.load(Ordering::Relaxed));
        for slot in self.slots(hash) {
            let found = (slot.tag(), slot.word());
            if found.1 == BUSY {
                continue;
            }
            let debt = left(found.1, now);
            if debt > reach {
                begin_epoch();
                // If the slot changes meanwhile, another request has repaired it.
                if slot.hold(found) {
                    slot.release(found.0, now.wrapping_add(reach));
                }
            }
            first = Some(first.unwrap_or(reach).min(debt));
        }
        time(first.unwrap_or(0).max(1))
    }
}

/// The slot of a key, as long as it has this tag.
#[derive(Clone, Copy)]
pub(super) struct OwnSlot<'a> {
    slot: &'a Slot,
    tag: u64,
}

impl OwnSlot<'_> {
    /// Returns whether both are one slot.
    #[inline]
    pub(super) fn is(self, other: Self) -> bool {
        ptr::eq(self.slot, other.slot)
    }

    /// Returns when the debt ends, unless another thread holds the slot or has changed its owner.
    #[inline]
    pub(super) fn word(self) -> Option<u64> {
        let word = self.slot.word();
        (word != BUSY && self.slot.tag() == self.tag).then_some(word)
    }

    /// Raises the debt that was found, and returns whether it counts: no other thread has changed it or the owner.
    #[inline]
    pub(super) fn raise(self, found: u64, raised: u64) -> bool {
        self.slot.charge(found, raised) && self.slot.tag() == self.tag
    }
}

/// A slot that no other thread changes, and the tag and the word that were found in it.
pub(super) struct Held<'a> {
    slot: &'a Slot,
    found: (u64, u64),
}

impl Held<'_> {
    /// Returns the state of a key, which is fresh if the slot was free.
    #[inline]
    pub(super) fn state(&self, hash: u64) -> State {
        let (found, word) = self.found;
        if found == tag(hash) { State::Gcra(Tat(Some(word))) } else { State::Fresh }
    }

    /// Leaves the state of a key in the slot. A key with a fresh state takes no slot.
    #[inline]
    pub(super) fn release(self, hash: u64, state: &State, now: Timestamp) {
        let (tag, word) = match state {
            State::Gcra(Tat(Some(word))) => (tag(hash), *word),
            _ if self.found.0 == tag(hash) => (self.found.0, ticks(now)),
            _ => self.found,
        };
        self.slot.release(tag, word);
        mem::forget(self);
    }
}

/// If a clock panics, the slot is as it was.
impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.slot.release(self.found.0, self.found.1);
    }
}

impl Line {
    /// Returns how many slots are free, and the one that has been free for longest, so that a key that
    /// comes back soon finds its own.
    #[inline]
    fn free(&self, now: u64) -> (usize, Option<Found<'_>>) {
        let (mut free, mut longest, mut place) = (0, 0, None);
        for slot in &self.0 {
            let (tag, word) = (slot.tag(), slot.word());
            let age = if tag == 0 { u64::MAX } else { left(now, word) };
            if word != BUSY && (tag == 0 || left(word, now) == 0) {
                free += 1;
                if place.is_none() || age > longest {
                    (longest, place) = (age, Some((slot, (tag, word))));
                }
            }
        }
        (free, place)
    }
}

/// The word of a slot that is being changed.
const BUSY: u64 = u64::MAX;

/// A slot that was never used is all zero.
#[derive(Default)]
struct Slot {
    tag: AtomicU64,
    word: AtomicU64,
}

/// Returns the tag of a hash: not 0, which is that of a slot that was never used.
#[inline]
fn tag(hash: u64) -> u64 {
    hash.max(1)
}

impl Slot {
    #[inline]
    fn tag(&self) -> u64 {
        self.tag.load(Ordering::Acquire)
    }

    #[inline]
    fn word(&self) -> u64 {
        self.word.load(Ordering::Acquire)
    }

    /// Raises the debt that was found, unless another thread has changed it. It counts if the tag is the
    /// same afterwards.
    #[inline]
    fn charge(&self, found: u64, word: u64) -> bool {
        // `BUSY` would be a debt of a tick less.
        let word = if word == BUSY { 0 } else { word };
        self.word.compare_exchange(found, word, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Marks the slot as busy, unless another thread has done so, or has changed the tag or the word that were found.
    fn hold(&self, found: (u64, u64)) -> bool {
        let (tag, word) = found;
        let taken = self.word.compare_exchange(word, BUSY, Ordering::AcqRel, Ordering::Relaxed);
        if word == BUSY || taken.is_err() {
            return false;
        }
        let is_same = self.tag() == tag;
        if !is_same {
            self.word.store(word, Ordering::Release);
        }
        is_same
    }

    /// Stores a tag and a word in a slot that is held.
    fn release(&self, tag: u64, word: u64) {
        self.tag.store(tag, Ordering::Release);
        self.word.store(if word == BUSY { 0 } else { word }, Ordering::Release);
    }
}
