//! A bounded table of GCRA's debts, one [slot](Slot) a key.
//!
//! A key has its slot in one of three cache lines, mostly in its first. A check that finds it there takes no lock.
//! Everything else happens under a lock that the key always takes, so no key gets two slots: a slot whose debt has drained
//! is claimed.
//!
//! If all slots of a key are taken by debtors, the key has no state: the table is [`Full`] for it.

mod slot;

use self::slot::{BUSY, Slot, tag};
use super::{
    epoch::Epoch,
    full::Full,
    place::{index, part_of, second_index},
    present::Now,
};
use crate::{
    Cost, Decision, Timestamp,
    algorithms::{Gcra, Tat, Transition},
    sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock, yield_now},
    ticks::{left, ticks, time},
};

pub(crate) struct Words {
    /// In pairs of neighbours.
    lines: Box<[[Line; NEIGHBOURS]]>,
    /// Each is the lock of the keys with a part of the hashes, whose first lines are neighbours.
    locks: Box<[Mutex<()>]>,
    /// The largest debt that any quota of the limiter can leave, in ticks. Slots of other keys are judged by it.
    reach: AtomicU64,
    pub(crate) epoch: Epoch,
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

/// A slot, and the tag and the word that were found in it.
type Found<'a> = (&'a Slot, (u64, u64));

impl Words {
    /// Returns a table with room for `keys` debtors. It takes 40 bytes a key: 2.35 slots, since lines do not fill evenly.
    pub(crate) fn new(keys: usize) -> Self {
        let pairs = if cfg!(loom) { 1 } else { pairs_for(keys) };
        Self {
            lines: (0..pairs).map(|_| Default::default()).collect(),
            locks: (0..pairs.min(MOST_LOCKS)).map(|_| Mutex::default()).collect(),
            reach: AtomicU64::new(0),
            epoch: Epoch::default(),
        }
    }

    /// Lets a quota use the table.
    pub(crate) fn add(&self, gcra: &Gcra) {
        if gcra.longest_debt() > self.reach.load(Ordering::Relaxed) {
            self.reach.fetch_max(gcra.longest_debt(), Ordering::Relaxed);
        }
    }

    /// Decides on a cost in the common case: the key has a slot, its debt is possible, and no other thread changes its
    /// owner meanwhile. Returns the decision and when the debt ends afterwards, or `None` in any other case.
    ///
    /// Apart from [`with`](Self::with), and without a lock, because that halves the time of a check: `cargo
    /// xtask bench memory`.
    #[inline(always)]
    pub(crate) fn check(
        &self,
        gcra: &Gcra,
        hash: u64,
        now: Timestamp,
        cost: Cost,
    ) -> Option<(Decision, u64)> {
        self.own(hash)?.check(gcra, now, cost)
    }

    /// Returns the slot of a key in the common case: the key has one.
    #[inline(always)]
    pub(crate) fn own(&self, hash: u64) -> Option<OwnSlot<'_>> {
        let tag = tag(hash);
        self.with_tag(hash, tag).map(|slot| OwnSlot { slot, tag })
    }

    /// Returns the slot with a tag.
    #[inline(always)]
    fn with_tag(&self, hash: u64, tag: u64) -> Option<&Slot> {
        let has_tag = |slot: &&Slot| slot.tag() == tag;
        let in_others = || self.others(hash).iter().flat_map(|line| &line.0).find(has_tag);
        self.first(hash).0.iter().find(has_tag).or_else(in_others)
    }

    /// Changes the state of a key at present, or when a waiter was `due`. A key without a slot gets one if
    /// the change charges it.
    ///
    /// `change` may run several times; the last run counts.
    pub(crate) fn with<R>(
        &self,
        gcra: &Gcra,
        hash: u64,
        clock: Now<'_>,
        due: Option<Timestamp>,
        mut change: impl FnMut(&mut Tat, Timestamp) -> R,
    ) -> Result<R, Full> {
        let _lock = self.lock(hash);
        loop {
            if let Some(found) = self.find(hash) {
                match self.update(gcra, found, clock, due, &mut change) {
                    Some(result) => return Ok(result),
                    None => continue,
                }
            }
            let now = clock();
            let Some((slot, found)) = self.free(hash, ticks(now)) else {
                self.repair(hash, now);
                return Err(self.full(hash, now));
            };
            let mut tat = Tat::default();
            let result = change(&mut tat, due.unwrap_or(now));
            let is_counted = tat.0.is_none_or(|tat| slot.replace(found, (tag(hash), tat)));
            if is_counted {
                return Ok(result);
            }
        }
    }

    /// Makes the state of a key fresh.
    pub(crate) fn reset(&self, hash: u64, clock: Now<'_>) {
        let _lock = self.lock(hash);
        while let Some((slot, found)) = self.find(hash) {
            if found.1 != BUSY && slot.replace(found, (found.0, ticks(clock()))) {
                return;
            }
            yield_now();
        }
    }

    /// Changes the state in a slot, unless another thread changes it meanwhile. An impossible debt is
    /// replaced by a full one, also if the change does nothing.
    fn update<R>(
        &self,
        gcra: &Gcra,
        (slot, found): Found<'_>,
        clock: Now<'_>,
        due: Option<Timestamp>,
        change: impl FnOnce(&mut Tat, Timestamp) -> R,
    ) -> Option<R> {
        if found.1 == BUSY {
            yield_now();
            return None;
        }
        // After the word was read: before, the debt could seem impossible.
        let now = clock();
        let mut tat = Tat(Some(found.1));
        if gcra.advance(&mut tat, now) {
            self.epoch.begin();
        }
        let result = change(&mut tat, due.unwrap_or(now));
        let word = tat.0.unwrap_or(ticks(now));
        let is_current = if word == found.1 {
            slot.tag() == found.0
        } else {
            slot.replace(found, (found.0, word))
        };
        is_current.then_some(result)
    }

    /// Shortens the impossible debts of a key's neighbours, whose keys may never come back for it, to the longest ones.
    fn repair(&self, hash: u64, now: Timestamp) {
        let reach = self.reach.load(Ordering::Relaxed);
        for slot in self.slots(hash) {
            let (tag, word) = slot.found();
            if word != BUSY && left(word, ticks(now)) > reach {
                self.epoch.begin();
                // If the slot changes meanwhile, another request has repaired it.
                let _ = slot.replace((tag, word), (tag, ticks(now).wrapping_add(reach)));
            }
        }
    }

    /// Returns the slot of a key that has one.
    fn find(&self, hash: u64) -> Option<Found<'_>> {
        self.slots(hash).find_map(|slot| {
            let found = slot.found();
            (found.0 == tag(hash)).then_some((slot, found))
        })
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

    /// Locks the lines of a key against other keys that take or leave a slot.
    fn lock(&self, hash: u64) -> MutexGuard<'_, ()> {
        lock(part_of(&self.locks, hash))
    }

    /// Returns when the first of a key's slots is free.
    fn full(&self, hash: u64, now: Timestamp) -> Full {
        let ends = self.slots(hash).map(Slot::word).filter(|word| *word != BUSY);
        let first = ends.map(|word| left(word, ticks(now))).min().unwrap_or(0);
        Full { now, wait: time(first) }
    }
}

/// The slot of a key, as long as it has this tag.
#[derive(Clone, Copy)]
pub(crate) struct OwnSlot<'a> {
    slot: &'a Slot,
    tag: u64,
}

impl OwnSlot<'_> {
    /// Decides on a cost, as [`Words::check`] does.
    #[inline(always)]
    pub(crate) fn check(self, gcra: &Gcra, now: Timestamp, cost: Cost) -> Option<(Decision, u64)> {
        let Self { slot, tag } = self;
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

    /// Returns the debt, if it is possible and no other thread changes the owner of the slot.
    #[inline]
    pub(crate) fn read(self, gcra: &Gcra, now: Timestamp) -> Option<Tat> {
        let word = self.slot.word();
        let tat = Tat(Some(word));
        let is_own = word != BUSY && self.slot.tag() == self.tag;
        (is_own && gcra.is_possible(&tat, now)).then_some(tat)
    }
}

impl Line {
    /// Returns how many slots are free, and the one that has been free for longest, so that a key that
    /// comes back soon finds its own.
    fn free(&self, now: u64) -> (usize, Option<Found<'_>>) {
        let (mut free, mut longest, mut place) = (0, 0, None);
        for slot in &self.0 {
            let (tag, word) = slot.found();
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
