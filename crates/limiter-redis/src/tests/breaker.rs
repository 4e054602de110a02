//! When the store is asked, and when it is left alone.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::call::breaker::{Breaker, Refused, Settings, Transition};

const DEADLINE: Duration = Duration::from_millis(50);
const OPEN: Duration = Duration::from_millis(100);
const SETTINGS: Settings = Settings { failures: 5, open: OPEN, deadline: DEADLINE };

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn breaker() -> (Breaker, Instant) {
    let start = Instant::now();
    (Breaker::new(SETTINGS), start)
}

/// A breaker that has just opened.
fn open_breaker() -> (Breaker, Instant) {
    let (breaker, now) = breaker();
    for _ in 1..5 {
        assert_eq!(fail(&breaker, now), None);
    }
    assert_eq!(fail(&breaker, now), Some(Transition::Opened));
    (breaker, now)
}

fn fail(breaker: &Breaker, now: Instant) -> Option<Transition> {
    breaker.pass(now).unwrap().failed(now)
}

fn succeed(breaker: &Breaker, now: Instant) -> Option<Transition> {
    breaker.pass(now).unwrap().succeeded(now)
}

fn retry_in(breaker: &Breaker, now: Instant) -> Option<Duration> {
    breaker.pass(now).err().map(|Refused { retry_in }| retry_in)
}

#[test]
fn five_failures_in_a_row_open_it() {
    let (breaker, now) = breaker();
    for _ in 0..2 {
        for _ in 0..4 {
            assert_eq!(fail(&breaker, now), None);
        }
        assert_eq!(succeed(&breaker, now), None);
        // So that most calls succeed.
        for _ in 0..Breaker::RECENT {
            assert_eq!(succeed(&breaker, now), None);
        }
    }
    for _ in 0..4 {
        assert_eq!(fail(&breaker, now), None);
    }
    assert_eq!(fail(&breaker, now), Some(Transition::Opened));
    assert_eq!(retry_in(&breaker, now), Some(OPEN));
}

#[test]
fn failures_of_most_of_the_recent_calls_open_it() {
    let (breaker, now) = breaker();
    for _ in 0..1_000 {
        assert_eq!(fail(&breaker, now), None, "half of the calls fail");
        assert_eq!(succeed(&breaker, now), None);
    }
    assert_eq!(fail(&breaker, now), None);
    assert_eq!(fail(&breaker, now), Some(Transition::Opened));
}

#[test]
fn slow_answers_count_as_failures() {
    let (breaker, now) = breaker();
    for _ in 0..100 {
        assert_eq!(breaker.pass(now).unwrap().succeeded(now + DEADLINE / 2), None);
    }
    let slow = now + DEADLINE / 2 + Duration::from_nanos(1);
    for _ in 1..5 {
        assert_eq!(breaker.pass(now).unwrap().succeeded(slow), None);
    }
    assert_eq!(breaker.pass(now).unwrap().succeeded(slow), Some(Transition::Opened));
}

#[test]
fn cancelled_calls_count_neither_way() {
    let (breaker, now) = breaker();
    for _ in 1..5 {
        assert_eq!(fail(&breaker, now), None);
        drop(breaker.pass(now).unwrap());
    }
    assert_eq!(fail(&breaker, now), Some(Transition::Opened));
}

#[test]
fn an_open_breaker_refuses_until_the_time_is_over() {
    let (breaker, opened) = open_breaker();
    assert_eq!(retry_in(&breaker, opened), Some(OPEN));
    assert_eq!(retry_in(&breaker, opened + ms(60)), Some(ms(40)));
    let last = opened + OPEN - Duration::from_nanos(1);
    assert_eq!(retry_in(&breaker, last), Some(Duration::from_nanos(1)));
    assert_eq!(retry_in(&breaker, opened + OPEN), None);
}

#[test]
fn one_probe_passes_and_its_success_closes_the_breaker() {
    let (breaker, opened) = open_breaker();
    let now = opened + OPEN;
    let probe = breaker.pass(now).unwrap();
    assert_eq!(retry_in(&breaker, now), Some(Breaker::MAX_OPEN));
    assert_eq!(retry_in(&breaker, now + ms(49)), Some(Breaker::MAX_OPEN));
    assert_eq!(probe.succeeded(now + ms(1)), Some(Transition::Closed));
    // Nothing is held against it.
    for _ in 1..5 {
        assert_eq!(fail(&breaker, now), None);
    }
    assert_eq!(fail(&breaker, now), Some(Transition::Opened));
}

#[test]
fn a_slow_probe_keeps_it_open() {
    let (breaker, opened) = open_breaker();
    let sent = opened + OPEN;
    let heard = sent + ms(26);
    assert_eq!(breaker.pass(sent).unwrap().succeeded(heard), None);
    assert_eq!(retry_in(&breaker, heard), Some(2 * OPEN));
}

#[test]
fn failed_probes_lengthen_the_pause_to_a_fifth_of_a_second() {
    let (breaker, mut now) = open_breaker();
    for open in [100, 200, 200, 200, 200, 200, 200, 200, 200, 200, 200] {
        assert_eq!(retry_in(&breaker, now), Some(ms(open)));
        now += ms(open);
        assert_eq!(fail(&breaker, now), None, "it is open already");
    }
    now += Breaker::MAX_OPEN;
    assert_eq!(succeed(&breaker, now), Some(Transition::Closed));
    for _ in 1..5 {
        assert_eq!(fail(&breaker, now), None);
    }
    assert_eq!(fail(&breaker, now), Some(Transition::Opened));
    assert_eq!(retry_in(&breaker, now), Some(OPEN), "the pause is short again");
}

#[test]
fn a_cancelled_probe_gives_its_place_back() {
    let (breaker, opened) = open_breaker();
    let now = opened + OPEN;
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
    let sent = opened + OPEN;
    let stuck = breaker.pass(sent).unwrap();
    let given_up = sent + DEADLINE + ms(1_000);
    assert!(retry_in(&breaker, given_up - ms(1)).is_some());
    let next = breaker.pass(given_up).unwrap();
    assert_eq!(stuck.succeeded(given_up), None);
    assert!(retry_in(&breaker, given_up).is_some(), "the next probe is still under way");
    assert_eq!(next.succeeded(given_up), Some(Transition::Closed));
}

#[test]
fn late_results_change_nothing() {
    let (breaker, start) = breaker();
    let mut early = (0..20).map(|_| breaker.pass(start).unwrap()).collect::<Vec<_>>();
    for _ in 1..5 {
        assert_eq!(fail(&breaker, start), None);
    }
    assert_eq!(fail(&breaker, start), Some(Transition::Opened));

    assert_eq!(early.pop().unwrap().succeeded(start), None);
    assert_eq!(retry_in(&breaker, start), Some(OPEN), "a late success does not close it");
    assert_eq!(early.pop().unwrap().failed(start + ms(50)), None);
    assert_eq!(retry_in(&breaker, start), Some(OPEN), "nor does a late failure prolong it");

    let now = start + OPEN;
    let probe = breaker.pass(now).unwrap();
    assert_eq!(early.pop().unwrap().succeeded(start), None);
    assert_eq!(early.pop().unwrap().failed(start), None);
    drop(early.pop());
    assert!(retry_in(&breaker, now).is_some(), "the probe is still under way");
    assert_eq!(probe.succeeded(now), Some(Transition::Closed));

    for late in early {
        assert_eq!(late.failed(now), None);
    }
    for _ in 1..5 {
        assert_eq!(fail(&breaker, now), None, "late failures are not counted");
    }
}

#[test]
fn settings_at_their_ends_neither_panic_nor_hold_calls_for_long() {
    let start = Instant::now();
    for deadline in [Duration::ZERO, Duration::MAX] {
        for open in [Duration::ZERO, Duration::MAX] {
            for failures in [0, 1, u32::MAX] {
                let settings = Settings { failures, open, deadline };
                let breaker = Breaker::new(settings);
                let calls = (0..=Breaker::RECENT).map_while(|_| breaker.pass(start).ok());
                let opened = calls.filter_map(|pass| pass.failed(start)).collect::<Vec<_>>();
                assert!(opened.contains(&Transition::Opened));
                let now = start + Breaker::MAX_OPEN;
                assert_eq!(succeed(&breaker, now), Some(Transition::Closed));
            }
        }
    }
}

#[test]
fn it_goes_on_after_decades_and_millions_of_transitions() {
    let (breaker, mut now) = breaker();
    for _ in 0..600_000 {
        for _ in 1..5 {
            assert_eq!(fail(&breaker, now), None);
        }
        assert_eq!(fail(&breaker, now), Some(Transition::Opened));
        assert!(breaker.pass(now).is_err());
        now += OPEN;
        assert_eq!(succeed(&breaker, now), Some(Transition::Closed));
    }
    now += Duration::from_secs(100 * 366 * 86_400);
    for _ in 1..5 {
        assert_eq!(fail(&breaker, now), None);
    }
    assert_eq!(fail(&breaker, now), Some(Transition::Opened));
    assert_eq!(retry_in(&breaker, now), Some(OPEN));
    assert_eq!(succeed(&breaker, now + OPEN), Some(Transition::Closed));
}

#[test]
fn each_transition_is_told_to_one_of_many_threads() {
    let start = Instant::now();
    // So that no time has to pass before a probe.
    let breaker = Breaker::new(Settings { open: Duration::ZERO, ..SETTINGS });
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
                        0 => count(pass.succeeded(start)),
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
