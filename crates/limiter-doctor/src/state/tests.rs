//! The decoder accepts what scripts write, and says what it means.

use limiter_core::{Limit, Policy};

use super::*;

const NOW: u64 = 1_700_000_000_000_000;

fn limit(limit: &str) -> Limit {
    Policy::parse("api", limit).unwrap().limits()[0].clone()
}

fn field(identity: &str, text: &str) -> State {
    State::of_field(&Identity::parse(identity).unwrap(), text, NOW)
}

fn log(identity: &str, head: &str, ended: u64, is_whole: bool) -> State {
    let log = Log { head: head.to_owned(), ended, is_whole };
    State::of_log(&Identity::parse(identity).unwrap(), &log, NOW)
}

#[test]
fn gcra_is_a_part_of_the_span_and_with_a_limit_permits() {
    let state = field("gcra.60s", "1700000018000000");
    assert_eq!(state.problem, None);
    assert_eq!(state.sentence(None), "30 % of 60 s is used up; all of it is free in 18 s");
    let words = |quota: &str| state.sentence(Some(&limit(quota)));
    assert_eq!(words("10/min"), "3 of 10 permits in use, 7 left; all are free in 18 s");
    assert_eq!(words("100/min"), "30 of 100 permits in use, 70 left; all are free in 18 s");
    assert_eq!(words("1/min"), "1 of 1 permit in use, 0 left; all are free in 18 s");
    let state = field("gcra.60s", "1699999999000000");
    assert_eq!((state.sentence(None), state.problem), ("0 % of 60 s is used up".to_owned(), None));
    let state = field("gcra.60s", "1700000072000000");
    assert_eq!(state.sentence(None), "120 % of 60 s is used up; all of it is free in 72 s");
}

#[test]
fn decimals_count_and_the_rest_of_a_permit_counts_as_one() {
    // 3 permits of 3,000/s, each of which adds 333.3334 us.
    let state = field("gcra.1s", "1700000000001000.0002");
    assert_eq!((state.free_in.as_micros(), state.permits(&limit("3000/s"))), (1_001, 3));
    assert_eq!(field("gcra.1s", "1700000000001000.0003").permits(&limit("3000/s")), 4);
    // 1,000/s adds whole microseconds.
    assert_eq!(field("gcra.1s", "1700000000001000").permits(&limit("1000/s")), 1);
    assert_eq!(field("gcra.1s", "1700000000001000.0001").permits(&limit("1000/s")), 2);
}

#[test]
fn windows_are_counted_until_they_end() {
    for family in ["fixed-window", "aligned-window"] {
        let state = field(&format!("{family}.60s"), "1700000050000000 7");
        assert_eq!(state.sentence(None), "7 permits in use; all are free in 50 s");
        let state = field(&format!("{family}.60s"), "1700000000000000 7");
        assert_eq!(
            (state.used, state.free_in, state.problem),
            (Used::Permits(0), Duration::ZERO, None)
        );
    }
}

#[test]
fn a_counter_fades_and_moves_on() {
    let state = field("sliding-counter.60s", "1700000090000000 7 20");
    assert_eq!((state.used, state.free_in.as_secs()), (Used::Permits(17), 90));
    let state = field("sliding-counter.60s", "1700000030000000 7 20");
    assert_eq!((state.used, state.free_in.as_secs()), (Used::Permits(4), 30));
    let state = field("sliding-counter.60s", "1700000090000000 0 20");
    assert_eq!((state.used, state.free_in.as_secs()), (Used::Permits(10), 30));
    let state = field("sliding-counter.60s", "1700000000000000 7 3");
    assert_eq!((state.used, state.free_in.as_secs(), state.problem), (Used::Permits(0), 0, None));
}

#[test]
fn nothing_is_left_before_a_reservation() {
    let state = field("fixed-window.60s", "1700000090000000 2, 1700000030000000 9");
    let words = state.sentence(Some(&limit("10/min by fixed-window")));
    let used = "2 of 10 permits in use, none left before a reservation; all are free in 90 s";
    assert_eq!(words, used);
    let state = log("sliding-log.60s", "1700000005000000 2 5", 0, true);
    let words = state.sentence(Some(&limit("10/min by sliding-log")));
    let used = "5 of 10 permits in use, none left before a reservation; all are free in 65 s";
    assert_eq!(words, used);
}

#[test]
fn a_log_counts_all_but_the_entries_that_have_ended() {
    let state = log("sliding-log.60s", "1699999990000000 2 500", 490, true);
    assert_eq!(state.sentence(None), "10 permits in use; all are free in 50 s");
    let state = log("sliding-log.60s", "1699999990000000 2 500", 490, false);
    assert_eq!(state.sentence(None), "at most 10 permits in use; all are free in 50 s");
    let words = state.sentence(Some(&limit("20/min by sliding-log")));
    assert_eq!(words, "at most 10 of 20 permits in use, at least 10 left; all are free in 50 s");
    // Entries end a span after the start of their slot.
    let state = log("sub-windows.70s.10s", "1699999999000000 3 3", 0, true);
    assert_eq!((state.used, state.free_in.as_secs()), (Used::Permits(3), 60));
    let state = log("sliding-log.60s", "1699999940000000 2 5", 0, false);
    assert_eq!(state.sentence(None), "0 permits in use");
}

#[test]
fn no_value_panics_and_no_foreign_one_is_a_state() {
    let digits = "9".repeat(40);
    for text in [
        "",
        " ",
        "-",
        "-1",
        "1.5",
        "1 2",
        "a b c",
        "1 1 1 1 1 1",
        "1,2,3",
        &digits,
        "1700000000000000.",
        "1700000000000000.123",
        "1700000000000000.12345",
        "1700000000000000 1, ",
        "1700000000000000 -1",
        "17000000000000000 1",
        "1700000000000000 1 1 1",
        "1700000000000000 9999999999999999",
        "nonsense",
        "1700000000000000.0000.0000",
        "1700000000000000 1,1700000000000000 1",
    ] {
        for identity in ["gcra.60s", "fixed-window.60s", "sliding-counter.60s"] {
            assert_eq!(field(identity, text).problem, Some(NOT_A_STATE), "{identity} {text}");
        }
        assert_eq!(log("sliding-log.60s", text, 7, true).problem, Some(NOT_A_STATE), "{text}");
    }
    assert_eq!(log("sliding-log.60s", "1700000000000000 2 1", 0, true).problem, Some(NOT_A_STATE));
}

#[test]
fn a_time_that_is_too_far_ahead_is_a_problem() {
    for (identity, possible, too_far) in [
        ("gcra.60s", "1700000120000000", "1700000121000000"),
        ("gcra.60s+1s", "1700000061000000", "1700000062000000"),
        ("fixed-window.60s", "1700000120000000 1", "1700000121000000 1"),
        ("aligned-window.60s+1s", "1700000120000000 1", "1700000121000000 1"),
        ("sliding-counter.60s", "1700000180000000 1 0", "1700000181000000 1 0"),
    ] {
        assert_eq!(field(identity, possible).problem, None, "{identity}");
        assert_eq!(field(identity, too_far).problem, Some(TOO_FAR), "{identity}");
    }
    assert_eq!(log("sliding-log.60s", "1700000060000000 1 1", 0, true).problem, None);
    assert_eq!(log("sliding-log.60s", "1700000061000000 1 1", 0, true).problem, Some(TOO_FAR));
}
