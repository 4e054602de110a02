//! The decoder accepts what scripts write, and nothing else.

use limiter_core::{Algorithm, Policy};

use crate::state::{
    Entry, Family, Gcra, Log, State, UnknownFamily, Window, stored_families, stored_family,
};

const AT: &str = "1767225600000000";

/// Replaces `T` by a time.
fn text(form: &str) -> String {
    form.replace('T', AT)
}

fn is_state(family: Family, form: &str) -> bool {
    State::parse(family, &text(form)).is_some()
}

fn log(elements: &[&str]) -> Option<Log> {
    let elements: Vec<String> = elements.iter().map(|element| text(element)).collect();
    Log::parse(elements.iter().map(String::as_str))
}

#[test]
fn a_key_has_the_version_of_a_changed_form() {
    let families: Vec<_> = Algorithm::one_of_each().map(stored_family).collect();
    let expected = [
        "gcra",
        "gcra",
        "fixed-window",
        "aligned-window",
        "sliding-counter",
        "sub-windows.2",
        "sliding-log.2",
    ];
    assert_eq!(families, expected);
    for algorithm in Algorithm::one_of_each() {
        let family = Family::of(algorithm);
        assert_eq!(family.name(), algorithm.family());
        assert_eq!(Family::parse(family.stored()), Ok(family));
        let is_list = matches!(algorithm, Algorithm::SubWindows(_) | Algorithm::SlidingLog);
        assert_eq!(family.is_list(), is_list);
    }
    let limits =
        ["10/min", "100/h by sliding-log"].map(|limit| Policy::parse(limit, limit).unwrap());
    let policy = Policy::all_of("api", limits).unwrap();
    assert_eq!(stored_families(&policy), "gcra+sliding-log.2");
}

#[test]
fn a_family_of_another_version_is_not_decoded() {
    use UnknownFamily::{Newer, NoAlgorithm, Older};
    for (stored, why) in [
        ("sliding-log", Older),
        ("sub-windows", Older),
        ("sliding-log.3", Newer),
        ("gcra.2", Newer),
        ("gcra.1", NoAlgorithm),
        ("gcra.02", NoAlgorithm),
        ("gcra.+2", NoAlgorithm),
        ("gcra.", NoAlgorithm),
        ("gcra.x", NoAlgorithm),
        ("", NoAlgorithm),
        ("sliding", NoAlgorithm),
    ] {
        assert_eq!(Family::parse(stored), Err(why), "{stored}");
    }
}

#[test]
fn a_debt_is_whole_or_has_four_decimals() {
    let state = State::parse(Family::Gcra, &text("T 6000000 120000000"));
    let (tat, increment, reach) = (1_767_225_600_000_000, 6_000_000, 120_000_000);
    assert_eq!(state, Some(State::Gcra(Gcra { tat, increment, reach, scale: 1 })));
    let state = State::parse(Family::Gcra, &text("T.0005 333.3334 2000000.0000"));
    let tat = tat * 10_000 + 5;
    let (increment, reach, scale) = (3_333_334, 20_000_000_000, 10_000);
    assert_eq!(state, Some(State::Gcra(Gcra { tat, increment, reach, scale })));
    for form in [
        "T 1 1",
        "T 31622400000000 31622400000000",
        "T 1 400000000000000",
        "9999999999999999.9999 0000.0001 900719925474.0992",
    ] {
        assert!(is_state(Family::Gcra, form), "{form}");
    }
    for form in [
        "",
        "T",
        "T 1",
        "T 1 1 1",
        "T  1 1",
        " T 1 1",
        "T 1 1 ",
        "T 0 1",
        "T 2 1",
        "T 31622400000001 40000000000000",
        "T 1 400000000000001",
        "T.0000 1.0000 900719925474.0993",
        "T.0000 3162240000.0001 900719925474.0992",
        "176722560000000 1 1",
        "17672256000000000 1 1",
        "T.0000 1 1",
        "T 1.0000 1",
        "T.000 1.000 1.000",
        "T. 1. 1.",
        "T. 1 1",
        "T.00000 1.00000 1.00000",
        "T.0000 .0001 1.0000",
        "T.0.00 1.0000 1.0000",
        "T -1 1",
        "T +1 1",
        "T 1e3 1000",
        "T 1\n 1",
        "-",
    ] {
        assert!(!is_state(Family::Gcra, form), "{form}");
    }
}

#[test]
fn a_window_has_four_numbers_and_a_counter_five() {
    let (end, length, reach) = (1_767_225_600_000_000, 1_000, 189_734_400_000_000);
    let count = 158_112_000_000_000;
    let four = text("T 1000 189734400000000 158112000000000");
    let window = Window { end, length, reach, count, previous: None };
    for family in [Family::FixedWindow, Family::AlignedWindow] {
        assert_eq!(State::parse(family, &four), Some(State::Window(window)));
        assert!(!is_state(family, "T 1000 1000 1 1"));
    }
    let five = text("T 1000 189734400000000 158112000000000 7");
    let window = State::Window(Window { previous: Some(7), ..window });
    assert_eq!(State::parse(Family::SlidingCounter, &five), Some(window));
    for form in [
        "T 1000 1000 1",
        "T 999 1000 1 1",
        "T 1001 1000 1 1",
        "T 31622400000001 40000000000000 1 1",
        "T 1000 189734400000001 1 1",
        "T 1000 1000 158112000000001 1",
        "T 1000 1000 1 158112000000001",
        "T 1000 1000 1 ",
        "T 1000 1000 1 1 1",
        "176722560000000 1000 1000 1 1",
    ] {
        assert!(!is_state(Family::SlidingCounter, form), "{form}");
    }
}

#[test]
fn a_log_has_its_newest_entry_first_and_running_totals() {
    let found = log(&["T 2 9 10 60 70", "1767225599999990 3 5", "1767225599999995 2 7"]).unwrap();
    let at = 1_767_225_600_000_000;
    let newest = Entry { at, count: 2, total: 9 };
    let older =
        [(10, 3, 5), (5, 2, 7)].map(|(ago, count, total)| Entry { at: at - ago, count, total });
    let expected = Log { newest, slot: 10, span: 60, horizon: 70, older: older.to_vec() };
    assert_eq!(found, expected);
    // Entries end a span after the start of their slot.
    assert_eq!(found.end_of(&older[1]), at + 50);
    for (now, permits) in
        [(at + 49, 7), (at + 50, 2), (at + 59, 2), (at + 60, 0), (u64::MAX, 0), (0, 7)]
    {
        assert_eq!(found.permits_at(now), permits, "{now}");
    }
    // Of the older entries, only the oldest that counts is needed.
    let read = Log { older: vec![older[1]], ..found };
    assert_eq!(read.permits_at(at + 49), 4);
}

#[test]
fn an_impossible_log_is_not_decoded() {
    let largest =
        "T 9999999999999999 9999999999999999 64000000000000 64000000000000 158112000000000";
    for elements in [&["T 0 0 1 1 0"][..], &[largest], &["T 1 2 1 1 0", "T 1 1"]] {
        assert!(log(elements).is_some(), "{elements:?}");
    }
    for elements in [
        &[][..],
        &[""],
        // The form before running totals.
        &["T 1 2 1 60 60", "1767225599999990 1"],
        &["T 1 1 1 60"],
        &["T 1 1 1 60 60 60"],
        &["T 2 1 1 60 60"],
        &["T 1 1 0 60 60"],
        &["T 1 1 61 60 60"],
        &["T 1 1 1 64000000000001 60"],
        &["T 1 1 1 60 158112000000001"],
        &["T 00000000000000001 1 1 60 60"],
        &["T 1 00000000000000001 1 60 60"],
        &["176722560000000 1 1 1 60 60"],
        &["T 1 2 1 60 60", "1767225600000001 1 1"],
        &["T 1 2 1 60 60", "T 1 2"],
        &["T 1 2 1 60 60", "T 2 1"],
        &["T 1 2 1 60 60", "T 1 1 1"],
        &["T 1 2 1 60 60", "T 1 1", ""],
    ] {
        assert_eq!(log(elements), None, "{elements:?}");
    }
    assert_eq!(State::parse(Family::SlidingLog, &text("T 1 1 1 60 60")), None);
}

#[test]
fn several_limits_have_one_state_each() {
    let families = [Family::Gcra, Family::SlidingLog, Family::FixedWindow];
    let parse = |form: &str| State::parse_several(&families, &text(form));
    let found = parse("T 1 1, T 1 2 1 60 60;1767225599999990 1 1, -").unwrap();
    assert!(matches!(found[0], Some(State::Gcra(_))));
    assert!(matches!(&found[1], Some(State::Log(log)) if log.older.len() == 1));
    assert_eq!(found[2], Some(State::Fresh));
    for form in ["", "-", "-, -", "-, -, -, -", "-,-,-"] {
        assert_eq!(parse(form), None, "{form}");
    }
    // The others are still decoded.
    for form in ["T 1 1, T 1 2 1 60 60;x, -", "T 1 1, T 1 2 1 60 60 1767225599999990 1, -"] {
        let found = parse(form).unwrap();
        assert_eq!((found[0].is_some(), &found[1], found[2].is_some()), (true, &None, true));
    }
    assert_eq!(parse("-, -, --").unwrap()[2], None);
}
