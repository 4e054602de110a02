//! When the store is asked, and when it is left alone.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

use limiter_core::Timestamp;

use crate::{
    call::breaker::{Breaker, Settings},
    events::Transition,
};

const DEADLINE: Duration = Duration::from_millis(50);
const OPEN: Duration = Duration::from_millis(100);
const SETTINGS: Settings = Settings { failures: 5, open: OPEN, deadline: DEADLINE };

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn breaker() -> (Breaker, Timestamp) {
    let start = Timestamp::from_nanos(7);
    (Breaker::new(SETTINGS), start)
}

/// Lets a closed breaker count five failures, and returns when the last of them opened it.
fn open(breaker: &Breaker, mut now: Timestamp) -> Timestamp {
    for _ in 1..5 {
        assert_eq!(fail(breaker, now), None);
        now = now.saturating_add(Breaker::APART);
    }
    assert_eq!(fail(breaker, now), Some(Transition::Opened));
    now
}

/// A breaker that has just opened.
fn open_breaker() -> (Breaker, Timestamp) {
    let (breaker, now) = breaker();
    let opened = open(&breaker, now);
    (breaker, opened)
}

fn fail(breaker: &Breaker, now: Timestamp) -> Option<Transition> {
    breaker.pass(now).unwrap().failed(now)
}

fn succeed(breaker: &Breaker, now: Timestamp) -> Option<Transition> {
    breaker.pass(now).unwrap().succeeded()
}

/// Returns how long calls are refused from a moment on, at most [`Breaker::MAX_OPEN`].
fn retry_in(breaker: &Breaker, now: Timestamp) -> Option<Duration> {
    let is_refused =
        |nanos| breaker.may_pass(now.saturating_add(Duration::from_nanos(nanos))).is_err();
    let (mut low, mut high) = (0, u64::try_from(Breaker::MAX_OPEN.as_nanos()).unwrap());
    while low < high {
        let middle = u64::midpoint(low, high);
        if is_refused(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    (low > 0).then(|| Duration::from_nanos(low))
}

#[test]
fn five_failures_in_a_row_open_it() {
    let (breaker, mut now) = breaker();
    for _ in 0..100 {
        for _ in 0..4 {
            assert_eq!(fail(&breaker, now), None);
            now = now.saturating_add(Breaker::APART);
        }
        assert_eq!(succeed(&breaker, now), None);
    }
    let opened = open(&breaker, now);
    assert_eq!(retry_in(&breaker, opened), Some(OPEN));
}

#[test]
fn five_time_outs_one_after_the_other_open_it_within_five_deadlines() {
    let (breaker, mut now) = breaker();
    for time_out in 1..=5 {
        let pass = breaker.pass(now).unwrap();
        now = now.saturating_add(DEADLINE);
        let opened = (time_out == 5).then_some(Transition::Opened);
        assert_eq!(pass.failed(now), opened);
    }
}

#[test]
fn time_outs_that_overlap_are_one_failure() {
    let (breaker, start) = breaker();
    // 500 tasks whose calls all begin within a deadline, four times.
    for round in 0..4 {
        let start = start.saturating_add(2 * DEADLINE * round);
        let calls = (0..500).map(|task| start.saturating_add(DEADLINE * task / 501));
        let calls: Vec<_> = calls.map(|sent| (breaker.pass(sent).unwrap(), sent)).collect();
        for (pass, sent) in calls {
            assert_eq!(pass.failed(sent.saturating_add(DEADLINE)), None);
        }
    }
    assert_eq!(fail(&breaker, start.saturating_add(10 * DEADLINE)), Some(Transition::Opened));
}

#[test]
fn a_connection_that_is_lost_and_made_again_is_one_failure() {
    let (breaker, start) = breaker();
    for lost in 0..4 {
        // Calls that find no connection fail at once, until it is made.
        for moment in 0..Breaker::APART.as_micros() {
            let moment = u64::try_from(moment).unwrap();
            let now = start.saturating_add(Breaker::APART * lost + Duration::from_micros(moment));
            assert_eq!(fail(&breaker, now), None);
        }
    }
    assert_eq!(fail(&breaker, start.saturating_add(4 * Breaker::APART)), Some(Transition::Opened));
}

#[test]
fn replies_within_the_deadline_are_no_failures() {
    let (breaker, start) = breaker();
    for call in 0..1_000 {
        let pass = breaker.pass(start.saturating_add(DEADLINE * call)).unwrap();
        assert_eq!(pass.succeeded(), None, "however late in it");
    }
}

#[test]
fn cancelled_calls_count_neither_way() {
    let (breaker, mut now) = breaker();
    for _ in 1..5 {
        assert_eq!(fail(&breaker, now), None);
        drop(breaker.pass(now).unwrap());
        now = now.saturating_add(Breaker::APART);
    }
    assert_eq!(fail(&breaker, now), Some(Transition::Opened));
}

#[test]
fn an_open_breaker_refuses_until_the_time_is_over() {
    let (breaker, opened) = open_breaker();
    assert_eq!(retry_in(&breaker, opened), Some(OPEN));
    assert_eq!(retry_in(&breaker, opened.saturating_add(ms(60))), Some(ms(40)));
    let last = opened.saturating_add(OPEN - Duration::from_nanos(1));
    assert_eq!(retry_in(&breaker, last), Some(Duration::from_nanos(1)));
    assert_eq!(retry_in(&breaker, opened.saturating_add(OPEN)), None);
}

#[test]
fn one_probe_passes_and_its_success_closes_the_breaker() {
    let (breaker, opened) = open_breaker();
    let now = opened.saturating_add(OPEN);
    let probe = breaker.pass(now).unwrap();
    assert_eq!(retry_in(&breaker, now), Some(Breaker::MAX_OPEN));
    assert_eq!(retry_in(&breaker, now.saturating_add(ms(49))), Some(Breaker::MAX_OPEN));
    assert_eq!(probe.succeeded(), Some(Transition::Closed));
    // Nothing is held against it.
    let _ = open(&breaker, now);
}

#[test]
fn failed_probes_lengthen_the_pause_to_a_fifth_of_a_second() {
    let (breaker, mut now) = open_breaker();
    for open in [100, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200] {
        assert_eq!(retry_in(&breaker, now), Some(ms(open)));
        now = now.saturating_add(ms(open));
        assert_eq!(fail(&breaker, now), None, "it is open already");
    }
    now = now.saturating_add(Breaker::MAX_OPEN);
    assert_eq!(succeed(&breaker, now), Some(Transition::Closed));
    let opened = open(&breaker, now);
    assert_eq!(retry_in(&breaker, opened), Some(OPEN), "the pause is short again");
}

#[test]
fn a_cancelled_probe_gives_its_place_back() {
    let (breaker, opened) = open_breaker();
    let now = opened.saturating_add(OPEN);
    for _ in 0..10 {
        let probe = breaker.pass(now).unwrap();
        assert!(retry_in(&breaker, now).is_some());
        drop(probe);
    }
    assert_eq!(fail(&breaker, now), None);
    assert_eq!(retry_in(&breaker, now), Some(2 * OPEN), "cancelled probes have not failed");
}

#[test]
fn a_probe_that_never_ends_loses_its_place() {
    let (breaker, opened) = open_breaker();
    let sent = opened.saturating_add(OPEN);
    let stuck = breaker.pass(sent).unwrap();
    let given_up = sent.saturating_add(DEADLINE + ms(1_000));
    assert!(retry_in(&breaker, sent.saturating_add(DEADLINE + ms(999))).is_some());
    let next = breaker.pass(given_up).unwrap();
    assert_eq!(stuck.succeeded(), None);
    assert!(retry_in(&breaker, given_up).is_some(), "the next probe is still under way");
    assert_eq!(next.succeeded(), Some(Transition::Closed));
}

#[test]
fn late_results_change_nothing() {
    let (breaker, start) = breaker();
    let mut early = (0..20).map(|_| breaker.pass(start).unwrap()).collect::<Vec<_>>();
    let opened = open(&breaker, start);

    assert_eq!(early.pop().unwrap().succeeded(), None);
    assert_eq!(retry_in(&breaker, opened), Some(OPEN), "a late success does not close it");
    assert_eq!(early.pop().unwrap().failed(opened.saturating_add(ms(50))), None);
    assert_eq!(retry_in(&breaker, opened), Some(OPEN), "nor does a late failure prolong it");

    let now = opened.saturating_add(OPEN);
    let probe = breaker.pass(now).unwrap();
    assert_eq!(early.pop().unwrap().succeeded(), None);
    assert_eq!(early.pop().unwrap().failed(now), None);
    drop(early.pop());
    assert!(retry_in(&breaker, now).is_some(), "the probe is still under way");
    assert_eq!(probe.succeeded(), Some(Transition::Closed));

    for late in early {
        assert_eq!(late.failed(now), None);
    }
    let _ = open(&breaker, now);
}

#[test]
fn settings_at_their_ends_neither_panic_nor_hold_calls_for_long() {
    let start = Timestamp::from_nanos(7);
    for deadline in [Duration::ZERO, Duration::MAX] {
        for open in [Duration::ZERO, Duration::MAX] {
            for failures in [0, 1, u32::MAX] {
                let settings = Settings { failures, open, deadline };
                let breaker = Breaker::new(settings);
                let moments = (0..20).map(|call| start.saturating_add(Breaker::APART * call));
                let mut calls = moments.filter_map(|now| breaker.pass(now).ok()?.failed(now));
                let opened = (failures < 20).then_some(Transition::Opened);
                assert_eq!(calls.next(), opened);
                let closed = (failures < 20).then_some(Transition::Closed);
                assert_eq!(
                    succeed(&breaker, start.saturating_add(Breaker::MAX_OPEN + ms(500))),
                    closed
                );
            }
        }
    }
}

#[test]
fn it_continues_after_decades_and_millions_of_transitions() {
    let (breaker, mut now) = breaker();
    for _ in 0..600_000 {
        now = open(&breaker, now);
        assert!(breaker.pass(now).is_err());
        now = now.saturating_add(OPEN);
        assert_eq!(succeed(&breaker, now), Some(Transition::Closed));
    }
    now = now.saturating_add(Duration::from_secs(100 * 366 * 86_400));
    let opened = open(&breaker, now);
    assert_eq!(retry_in(&breaker, opened), Some(OPEN));
    assert_eq!(succeed(&breaker, opened.saturating_add(OPEN)), Some(Transition::Closed));
}

#[test]
fn each_transition_is_reported_to_one_of_many_threads() {
    let start = Timestamp::from_nanos(7);
    // So that no time has to pass between failures, or before a probe.
    let breaker = Breaker::new(Settings { failures: 1, open: Duration::ZERO, ..SETTINGS });
    let [opened, closed] = [(); 2].map(|()| AtomicU64::new(0));
    let count = |transition| match transition {
        Some(Transition::Opened) => _ = opened.fetch_add(1, Ordering::SeqCst),
        Some(Transition::Closed) => _ = closed.fetch_add(1, Ordering::SeqCst),
        None => {}
    };
    thread::scope(|scope| {
        for thread in 0..4 {
            let (breaker, count) = (&breaker, &count);
            scope.spawn(move || {
                for call in 0..20_000_u64 {
                    let Ok(pass) = breaker.pass(start) else { continue };
                    // Most calls fail, so that it is open most of the time.
                    match (call + thread) % 8 {
                        0 => count(pass.succeeded()),
                        1 => drop(pass),
                        _ => count(pass.failed(start)),
                    }
                }
            });
        }
    });
    // Closed at the end, if it is not.
    count(succeed(&breaker, start));
    let [opened, closed] = [opened, closed].map(AtomicU64::into_inner);
    assert!(opened > 100, "{opened}");
    assert_eq!(opened, closed);
}
