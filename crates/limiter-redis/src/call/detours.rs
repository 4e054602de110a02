//! The keys that the script `policy` decides, because a limit's own script left them undecided.

use std::{
    array,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use limiter_core::Timestamp;

/// Remembers for a second which keys have states of other quotas or damaged ones, so that their checks take one call
/// and not two.
///
/// A key is known by its hash. If two keys share a place, the later one replaces the other; if they also share the
/// tag, the second takes a slower script. Neither changes a decision.
pub(crate) struct Detours {
    /// The high bits of a key's hash, and until when it counts, in milliseconds of the clock.
    places: [AtomicU64; PLACES],
}

const PLACES: usize = 1_024;

/// The bits of the time, which last for 34 years.
const TIME_BITS: u32 = 40;

/// How long a key is remembered. Then its own script is asked again.
const LASTS: Duration = Duration::from_secs(1);

impl Detours {
    /// Returns whether the key with this hash was added less than a second ago.
    #[inline]
    pub(crate) fn has(&self, hash: u64, now: Timestamp) -> bool {
        let word = self.place(hash).load(Relaxed);
        word >> TIME_BITS == hash >> TIME_BITS && millis(now) < word & ((1 << TIME_BITS) - 1)
    }

    /// Adds a key that its own script left undecided.
    pub(crate) fn add(&self, hash: u64, now: Timestamp) {
        let tag = hash >> TIME_BITS << TIME_BITS;
        self.place(hash).store(tag | millis(now.saturating_add(LASTS)), Relaxed);
    }

    fn place(&self, hash: u64) -> &AtomicU64 {
        // There is one for each value of the low bits.
        let index = usize::try_from(hash % PLACES as u64).unwrap_or(0);
        self.places.get(index).unwrap_or(&self.places[0])
    }
}

impl Default for Detours {
    fn default() -> Self {
        Self { places: array::from_fn(|_| AtomicU64::new(0)) }
    }
}

const fn millis(at: Timestamp) -> u64 {
    (at.as_nanos() / 1_000_000) & ((1 << TIME_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_remembered_for_a_second() {
        let start = Timestamp::from_nanos(7);
        let detours = Detours::default();
        let at = |millis| start.saturating_add(Duration::from_millis(millis));
        let hash = 0x1234_5678_9abc_def0;
        assert!(!detours.has(hash, start) && !detours.has(0, start));
        detours.add(hash, at(500));
        for (millis, is_known) in [(500, true), (1_499, true), (1_500, false), (9_999, false)] {
            assert_eq!(detours.has(hash, at(millis)), is_known, "{millis}");
        }
    }

    #[test]
    fn a_key_that_shares_a_place_has_another_tag() {
        let start = Timestamp::from_nanos(7);
        let detours = Detours::default();
        let (hash, other) = (0x1234_5678_9abc_def0, 0x1234_5778_9abc_def0);
        detours.add(hash, start);
        assert!(detours.has(hash, start) && !detours.has(other, start));
        detours.add(other, start);
        assert!(!detours.has(hash, start) && detours.has(other, start));
    }
}
