//! What the auditor of requests in flight finds, and what it excuses.

use super::*;

const ONE: ProcessId = ProcessId(1);
const KEY: Subject = Subject(0);
const EXPIRY: Micros = 300_000;

/// Returns an auditor of a key, with requests at work that entered under limits.
fn with_work(limits: &[u32]) -> InFlight {
    let mut auditor = InFlight::default();
    auditor.add(KEY, b"key".to_vec(), 0, EXPIRY);
    for limit in limits {
        auditor.begins(Work {
            process: ONE,
            subject: KEY,
            limiter: 0,
            limit: *limit,
            asked: 0,
            is_lost: false,
        });
    }
    auditor
}

fn is_over(auditor: &mut InFlight, now: Micros) -> bool {
    auditor.check(now).is_some()
}

#[test]
fn requests_above_a_limit_are_found() {
    for (limits, found) in [
        (&[2, 2][..], false),
        (&[2, 2, 2], true),
        // Under a lower limit only those count that entered under it or a lower one.
        (&[1, 3, 3], false),
        (&[1, 1, 3], true),
        (&[3, 3, 3, 1], true),
    ] {
        assert_eq!(is_over(&mut with_work(limits), 10), found, "{limits:?}");
    }
}

#[test]
fn work_that_is_stopped_lost_or_over_does_not_count() {
    let mut auditor = with_work(&[1, 1]);
    auditor.stops(ONE, false);
    assert!(!is_over(&mut auditor, 10));
    auditor.resumes(ONE, 20);
    assert!(is_over(&mut auditor, 20));
    auditor.is_lost(1);
    assert!(!is_over(&mut auditor, 20));
    assert!(is_over(&mut with_work(&[1, 1]), 20));
    let mut auditor = with_work(&[1, 1]);
    auditor.ends(2);
    assert!(!is_over(&mut auditor, 20));
}

#[test]
fn a_suspended_process_is_excused_for_an_expiry() {
    let mut auditor = with_work(&[1, 1]);
    auditor.stops(ONE, true);
    auditor.resumes(ONE, 1_000);
    assert!(!is_over(&mut auditor, 1_000 + EXPIRY));
    // A stop after that excuses nothing.
    auditor.stops(ONE, false);
    auditor.resumes(ONE, 2_000);
    assert!(is_over(&mut auditor, 1_001 + EXPIRY));
}

#[test]
fn a_loss_allows_the_limit_once_more_for_an_expiry() {
    let mut auditor = with_work(&[1, 1]);
    auditor.loses(1, 1_000);
    assert!(is_over(&mut auditor, 1_000));
    auditor.loses(0, 1_000);
    assert!(!is_over(&mut auditor, 1_000 + EXPIRY));
    assert!(is_over(&mut auditor, 1_001 + EXPIRY));
    let mut auditor = with_work(&[1, 1, 1]);
    auditor.loses(0, 1_000);
    assert!(is_over(&mut auditor, 1_000));
}

#[test]
fn a_step_ahead_counts_for_a_stale_server_too() {
    let mut auditor = with_work(&[1, 1, 1, 1]);
    auditor.loses(0, 2_000);
    auditor.steps_ahead(0, 1_000);
    assert!(!is_over(&mut auditor, 1_000));
    let mut auditor = with_work(&[1, 1, 1, 1]);
    auditor.loses(0, 2_000);
    auditor.steps_ahead(0, 2_000);
    assert!(is_over(&mut auditor, 2_000));
}

/// Returns what is wrong with a call that was sent at a time.
fn found(
    auditor: &mut InFlight,
    (script, sent): (&str, Micros),
    arguments: &[&str],
    (numbers, unexpired): (&[i64], usize),
) -> Option<String> {
    let arguments: Vec<Vec<u8>> = arguments.iter().map(|it| it.as_bytes().to_vec()).collect();
    auditor.executed(
        0,
        &Executed {
            process: ONE,
            sent,
            script,
            keys: &[b"key".to_vec()],
            arguments: &arguments,
            is_error: false,
            numbers: Some(numbers),
            unexpired,
        },
        sent,
    )
}

#[test]
fn a_refusal_below_the_limit_is_found() {
    let mut auditor = with_work(&[]);
    let enter = ["300000", "2", "id"];
    assert_eq!(found(&mut auditor, ("enter", 0), &enter, (&[0, 2], 2)), None);
    assert!(found(&mut auditor, ("enter", 0), &enter, (&[0, 2], 1)).is_some());
}

#[test]
fn a_renewal_of_a_young_permit_is_found() {
    let mut auditor = with_work(&[]);
    found(&mut auditor, ("enter", 1_000), &["300000", "2", "old"], (&[1, 1], 1));
    found(&mut auditor, ("enter", 2_000), &["300000", "2", "new"], (&[1, 2], 2));
    let renew = ["300000", "2", "old", "new", "2", "2"];
    assert!(found(&mut auditor, ("renew", 51_000), &renew, (&[1, 1], 2)).is_some());
    assert_eq!(found(&mut auditor, ("renew", 52_000), &renew, (&[1, 2], 2)), None);
    assert_eq!((auditor.counts.renewed, auditor.counts.restored), (3, 1));
    let tally = auditor.tally(ONE, 0);
    assert_eq!((tally.calls, tally.renewals), (4, 2));
}

#[test]
fn a_reset_allows_the_limit_once_more_for_its_key_until_an_expiry_after_it() {
    let mut auditor = with_work(&[2, 2, 2]);
    assert!(auditor.check(1_000).is_some());
    assert_eq!(found(&mut auditor, ("reset", 1_000), &[], (&[], 0)), None);
    assert!(auditor.check(1_000).is_none());
    assert!(auditor.check(1_000 + 300_001).is_some());
    assert!(found(&mut auditor, ("reset", 1_000), &[], (&[], 1)).is_some());
}

#[test]
fn a_process_has_at_most_its_share_with_what_the_store_has_admitted() {
    let mut auditor = with_work(&[9]);
    let work = Work { process: ONE, subject: KEY, limiter: 0, limit: 9, asked: 0, is_lost: false };
    let (number, message) = auditor.begins_by_share(work, 2);
    assert_eq!(message, None);
    assert!(auditor.begins_by_share(work, 2).1.is_some());
    let other = Work { process: ProcessId(2), ..work };
    assert_eq!(auditor.begins_by_share(other, 1).1, None);
    auditor.ends(number);
    assert_eq!(auditor.begins_by_share(work, 3).1, None);
}
