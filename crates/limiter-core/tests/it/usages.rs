//! Which of several limits a usage describes.

use std::time::Duration;

use limiter_core::Usage;

/// So many permits left, recovered after so many seconds.
fn usage(remaining: u64, reset_secs: u64) -> Usage {
    Usage::new(10, remaining, Duration::from_secs(reset_secs))
}

fn indexed<T>(parts: impl IntoIterator<Item = T>) -> impl Iterator<Item = (T, usize)> {
    parts.into_iter().zip(0..)
}

#[test]
fn the_index_of_a_limit_changes_no_figure() {
    let usage = usage(3, 7).with_limit_index(2);
    assert_eq!(usage.limit_index(), 2);
    assert_eq!((usage.burst(), usage.remaining(), usage.used()), (10, 3, 7));
    assert_eq!(usage.reset_after(), Duration::from_secs(7));
}

#[test]
fn the_fewest_left_describe_all_and_of_equals_the_slowest_to_recover() {
    let rows: [(&[(u64, u64)], usize); 5] = [
        (&[(3, 1)], 0),
        (&[(3, 9), (2, 1), (4, 99)], 1),
        (&[(2, 5), (2, 7), (2, 6)], 1),
        (&[(2, 7), (2, 7)], 0),
        (&[(0, 0), (0, 1)], 1),
    ];
    for (limits, index) in rows {
        let usages = indexed(limits)
            .map(|((left, reset), index)| usage(*left, *reset).with_limit_index(index));
        assert_eq!(Usage::fewest_remaining(usages).limit_index(), index, "{limits:?}");
    }
    assert_eq!(Usage::fewest_remaining([]), Usage::new(0, 0, Duration::ZERO));
}

#[test]
fn the_longest_wait_describes_all_and_of_equals_the_last() {
    let rows: [(&[Option<u64>], usize); 5] = [
        (&[Some(3)], 0),
        (&[Some(3), Some(5), Some(4)], 1),
        (&[Some(5), Some(0), Some(5)], 2),
        (&[Some(5), None, Some(7)], 1),
        (&[None, None, Some(0)], 1),
    ];
    for (waits, index) in rows {
        let usages = indexed(waits).map(|(wait, index)| {
            (wait.map(Duration::from_secs), usage(index as u64, 0).with_limit_index(index))
        });
        assert_eq!(Usage::longest_wait(usages).limit_index(), index, "{waits:?}");
    }
    assert_eq!(Usage::longest_wait([]), Usage::new(0, 0, Duration::ZERO));
}
