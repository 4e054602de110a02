//! One key's debt in two 64-bit atomics.
//!
//! The tag is the hash of the key and of the span of its quota. The word is the tick at which the debt ends.
//!
//! A charge is one compare-and-swap of the word. It counts if the tag is still the same afterwards. Any other change first
//! swaps the word to `BUSY`, compares the tag, which nobody else changes meanwhile, and then stores the tag and the word. So
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

    /// Replaces the tag and the word that were found, unless another thread has changed one of them.
    pub(crate) fn replace(&self, found: (u64, u64), (tag, word): (u64, u64)) -> bool {
        let taken = self.word.compare_exchange(found.1, BUSY, Ordering::AcqRel, Ordering::Relaxed);
        if taken.is_err() {
            return false;
        }
        let is_same = self.tag() == found.0;
        if is_same {
            self.tag.store(tag, Ordering::Release);
        }
        let word = if is_same { free_of_busy(word) } else { found.1 };
        self.word.store(word, Ordering::Release);
        is_same
    }
}

/// Returns a word, or the next one if it means `BUSY`: a debt of a tick more.
#[inline]
const fn free_of_busy(word: u64) -> u64 {
    if word == BUSY { 0 } else { word }
}
