//! One key's debt in two 64-bit atomics.
//!
//! The tag is the hash of the key and of the span of its quota. The word is the tick at which the debt ends.
//!
//! A charge is one compare-and-swap of the word. It counts if the tag is still the same afterwards. Any other change first
//! holds the slot: it swaps the word to `BUSY`, compares the tag, and then stores the tag and the word. So
//! if a charge is stalled while its slot changes hands, its swap fails; or, if the new word happens to equal the one that it
//! found, it raises a debt that is not its own and is repeated, which admits nothing.

use crate::sync::{AtomicU64, Ordering};

/// The word of a slot that is being changed.
pub(crate) const BUSY: u64 = u64::MAX;

/// A slot that was never used is all zero.
#[derive(Default)]
pub(crate) struct Slot {
    tag: AtomicU64,
    word: AtomicU64,
}

/// Returns the tag of a hash: not 0, which is that of a slot that was never used.
#[inline]
pub(crate) fn tag(hash: u64) -> u64 {
    hash.max(1)
}

impl Slot {
    #[inline]
    pub(crate) fn tag(&self) -> u64 {
        self.tag.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn word(&self) -> u64 {
        self.word.load(Ordering::Acquire)
    }

    /// Returns the tag and the word. A change that they lead to checks that they belonged together.
    #[inline]
    pub(crate) fn found(&self) -> (u64, u64) {
        (self.tag(), self.word())
    }

    /// Raises the debt that was found, unless another thread has changed it. It counts if the tag is the
    /// same afterwards.
    #[inline]
    pub(crate) fn charge(&self, found: u64, word: u64) -> bool {
        let word = free_of_busy(word);
        self.word.compare_exchange(found, word, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Marks the slot as busy, unless another thread has done so, or has changed the tag or the word that were found.
    pub(super) fn hold(&self, found: (u64, u64)) -> bool {
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
    pub(super) fn release(&self, tag: u64, word: u64) {
        self.tag.store(tag, Ordering::Release);
        self.word.store(free_of_busy(word), Ordering::Release);
    }
}

/// Returns a word, or the next one if it means `BUSY`: a debt of a tick more.
#[inline]
const fn free_of_busy(word: u64) -> u64 {
    if word == BUSY { 0 } else { word }
}
