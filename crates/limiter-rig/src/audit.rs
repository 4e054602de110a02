//! What tasks and processes admitted together, held against the bound of their limit.

pub mod in_flight;

use std::time::{SystemTime, UNIX_EPOCH};

use limiter_core::{Policy, Quota};

/// Permits that were admitted at some moment from `begun` to `ended`, in microseconds of Unix time.
///
/// It counts in a window if it was begun and ended there, so that no schedule of threads and processes adds to what was
/// admitted.
#[derive(Clone, Copy, Debug)]
pub struct Admission {
    /// When the check was begun.
    pub begun: u64,
    /// When its decision was there.
    pub ended: u64,
    /// How many permits it took.
    pub permits: u64,
}

/// The windows that are tried, in microseconds.
const WINDOWS: [u64; 9] =
    [1_000, 3_000, 10_000, 30_000, 100_000, 200_000, 300_000, 600_000, 1_000_000];

/// They begin at each multiple of so many microseconds.
const GRID: u64 = 100;

/// Returns the microseconds of Unix time.
#[must_use]
pub fn unix_micros() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}

/// Returns by how many permits the bound of a policy by GCRA was exceeded at most, in windows from a millisecond to a
/// second. Below zero, it was never reached.
///
/// # Panics
///
/// If a number is beyond 63 bits.
#[must_use]
pub fn over(admissions: &[Admission], policy: &Policy) -> i64 {
    let quota = policy.limits().first().expect("a policy has a limit").quota();
    let windows = WINDOWS.iter().map(|window| over_in(admissions, *window, quota));
    windows.max().unwrap_or(i64::MIN)
}

fn over_in(admissions: &[Admission], window: u64, quota: &Quota) -> i64 {
    let start = admissions.iter().map(|it| it.begun).min().unwrap_or(0);
    let end = admissions.iter().map(|it| it.ended).max().unwrap_or(start);
    let place = |micros: u64| usize::try_from(micros / GRID).expect("a time within days");
    let count = |permits: u64| i64::try_from(permits).expect("a number of permits");
    // How many more permits lie in the window that begins at a point of the grid than at the one before.
    let mut steps = vec![0_i64; place(end - start) + 2];
    for Admission { begun, ended, permits } in admissions {
        let first = place((ended - start).saturating_sub(window).next_multiple_of(GRID));
        let after = place(begun - start) + 1;
        if first < after
            && let Ok([from, to]) = steps.get_disjoint_mut([first, after])
        {
            *from += count(*permits);
            *to -= count(*permits);
        }
    }
    let flow = u128::from(quota.permits()) * u128::from(window) * 1_000;
    let flow = (flow / quota.window().as_nanos()).try_into().expect("a number of permits");
    let admitted = steps.iter().scan(0, |sum, step| {
        *sum += step;
        Some(*sum)
    });
    admitted.max().unwrap_or(0) - count(quota.burst()) - count(flow)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_beyond_the_bound_are_found_in_the_window_that_has_them() {
        let policy = Policy::gcra("test", Quota::per_second(1_000).with_burst(10));
        let at = |micros: u64, permits| Admission {
            begun: 5_000_000 + micros,
            ended: 5_000_010 + micros,
            permits,
        };
        let all = [at(0, 10), at(900, 1), at(90_000, 12), at(91_500, 4)];
        assert_eq!([2, 3, 4].map(|first| over(&all[..first], &policy)), [0, 1, 3]);
    }
}
