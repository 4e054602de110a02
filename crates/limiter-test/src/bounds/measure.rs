//! What was admitted, and the most of it in any trailing window.

use std::time::Duration;

/// Permits that were admitted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// When they may be used, in nanoseconds.
    pub at: u128,
    /// How many they are.
    pub permits: u64,
}

/// Returns the most permits in any window `(t - window, t]`, exactly.
///
/// # Panics
///
/// If an admission is earlier than the one before it.
#[must_use]
pub fn most_in_a_window(admissions: &[Admission], window: Duration) -> u128 {
    assert!(admissions.is_sorted_by_key(|admission| admission.at), "{admissions:?}");
    let mut oldest = admissions.iter().peekable();
    let mut within = 0;
    let running = admissions.iter().map(|latest| {
        within += u128::from(latest.permits);
        while let Some(old) = oldest.next_if(|old| latest.at - old.at >= window.as_nanos()) {
            within -= u128::from(old.permits);
        }
        within
    });
    running.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn most(admissions: &[(u128, u64)], window: u64) -> u128 {
        let admissions: Vec<_> =
            admissions.iter().map(|&(at, permits)| Admission { at, permits }).collect();
        most_in_a_window(&admissions, Duration::from_nanos(window))
    }

    #[test]
    fn moments_a_window_apart_are_not_in_one_window() {
        assert_eq!(most(&[(5, 2), (15, 3)], 10), 3);
        assert_eq!(most(&[(6, 2), (15, 3)], 10), 5);
    }

    #[test]
    fn the_fullest_window_may_be_any() {
        assert_eq!(most(&[], 10), 0);
        assert_eq!(most(&[(0, 1), (1, 4), (9, 2), (11, 1), (30, 5)], 10), 7);
    }

    #[test]
    fn sums_beyond_a_word_are_exact() {
        assert_eq!(most(&[(0, u64::MAX), (0, u64::MAX)], 1), 2 * u128::from(u64::MAX));
    }
}
