//! The decoder accepts what scripts write, and nothing else.

use limiter_core::Algorithm;
use limiter_redis::stored_family;

use super::{Family, Gcra, Log, State, UnknownFamily, Window, Writer, log::Entry, parse_leases};

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
        "fixed-window.2",
        "aligned-window.2",
        "sliding-counter.2",
        "sub-windows.3",
        "sliding-log.3",
    ];
    assert_eq!(families, expected);
    for algorithm in Algorithm::one_of_each() {
        let family = Family::of(algorithm);
        assert_eq!(
            (family.stored(), family.name()),
            (stored_family(algorithm), algorithm.family())
        );
        assert_eq!(Family::parse(family.stored()), Ok(family));
        let is_list = matches!(algorithm, Algorithm::SubWindows(_) | Algorithm::SlidingLog);
        assert_eq!(family.is_list(), is_list);
    }
}

#[test]
fn a_family_of_another_version_is_not_decoded() {
    use UnknownFamily::{Newer, NoAlgorithm, Older};
    for (stored, why) in [
        ("sliding-log", Older),
        ("sliding-log.2", Older),
        ("sub-windows.2", Older),
        ("fixed-window", Older),
        ("gcra+gcra", Older),
        ("gcra+sliding-log.2", Older),
        ("sliding-counter", Older),
        ("sliding-log.4", Newer),
        ("aligned-window.3", Newer),
        ("gcra.2", Newer),
        ("inflight.2", Newer),
        ("gcra.1", NoAlgorithm),
        ("gcra.02", NoAlgorithm),
        ("gcra.+2", NoAlgorithm),
        ("gcra.", NoAlgorithm),
        ("gcra.x", NoAlgorithm),
        ("", NoAlgorithm),
        ("sliding", NoAlgorithm),
        ("gcra+sliding", NoAlgorithm),
        ("gcra+", NoAlgorithm),
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
    let (since, length, reach) = (1_767_225_600_000_000, 1_000, 189_734_400_000_000);
    let (count, shortest, end) = (158_112_000_000_000, length, since + length);
    let window = Window { since, length, reach, count, previous: None, shortest, end };
    let four = text("T 1000 189734400000000 158112000000000");
    for family in [Family::FixedWindow, Family::AlignedWindow] {
        assert_eq!(State::parse(family, &four), Some(State::Windows(vec![window])));
        assert!(!is_state(family, "T 1000 1000 1 1"));
    }
    let five = text("T 1000 189734400000000 158112000000000 7");
    let window = State::Windows(vec![Window { previous: Some(7), ..window }]);
    assert_eq!(State::parse(Family::SlidingCounter, &five), Some(window));
    for form in [
        "",
        "-",
        "T 1000 1000 1",
        "T 999 1000 1 1",
        "T 1001 1000 1 1",
        "T 31622400000001 40000000000000 1 1",
        "T 1000 189734400000001 1 1",
        "T 1000 1000 158112000000001 1",
        "T 1000 1000 1 158112000000001",
        "T 1000 1000 1 ",
        "T 1000 1000 1 1 1",
        "T 1000 1000 -1 1",
        "T 1000 1000 01 1",
        "0767225600000000 1000 1000 1 1",
        "176722560000000 1000 1000 1 1",
    ] {
        assert!(!is_state(Family::SlidingCounter, form), "{form}");
    }
}

#[test]
fn an_aligned_window_ends_at_a_multiple_of_its_length() {
    let ends = |family, form: &str| {
        let State::Windows(windows) = State::parse(family, form)? else { return None };
        Some((windows[0].end, windows[0].shortest))
    };
    let since = 1_767_225_600_010_000;
    let four = format!("{since} 60000000 120000000 3");
    assert_eq!(ends(Family::FixedWindow, &four), Some((since + 60_000_000, 60_000_000)));
    let end = since - 10_000 + 60_000_000;
    assert_eq!(ends(Family::AlignedWindow, &four), Some((end, 60_000_000)));
    let later = end + 60_000_000;
    let six = format!("{four} 60000000 {later}");
    assert_eq!(ends(Family::AlignedWindow, &six), Some((later, 60_000_000)));
    assert_eq!(ends(Family::FixedWindow, &six), None);
    for (shortest, end) in [
        // The usual ones are not written.
        (60_000_000, end),
        (60_000_001, end),
        (999, end),
        (1_000, end + 1),
        (60_000_000, end - 60_000_000),
        (60_000_000, later + 60_000_000),
    ] {
        assert_eq!(ends(Family::AlignedWindow, &format!("{four} {shortest} {end}")), None);
    }
}

#[test]
fn a_key_has_up_to_four_windows_of_other_lengths() {
    let lengths = |family, form: &str| {
        let State::Windows(windows) = State::parse(family, &text(form))? else { return None };
        Some(windows.iter().map(|it| (it.shortest, it.length)).collect::<Vec<_>>())
    };
    let (fixed, counter) = (Family::FixedWindow, Family::SlidingCounter);
    let two = "T 2000 4000 1, T 3000 6000 1 1000 1767225600003000";
    assert_eq!(lengths(fixed, two), Some(vec![(2_000, 2_000), (1_000, 3_000)]));
    let two = "T 2000 4000 1 7, T 3000 6000 1 0 1000 1767225600003000";
    assert_eq!(lengths(counter, two), Some(vec![(2_000, 2_000), (1_000, 3_000)]));
    let windows: Vec<_> = (1..=5).map(|number| format!("T {number}000 9000 1")).collect();
    assert_eq!(lengths(fixed, &windows[1..].join(", ")).unwrap().len(), 4);
    for form in [
        &windows.join(", "),
        "T 2000 4000 1,T 3000 6000 1",
        "T 2000 4000 1, ",
        ", T 2000 4000 1",
        "T 2000 4000 1, -",
        "T 2000 4000 1, T 3000 6000 x",
        "T 2000 4000 1, T 3000 6000 1 1000",
        "T 3000 6000 1 1000 1767225600003000 1",
    ] {
        assert_eq!(lengths(fixed, form), None, "{form}");
    }
    let State::Windows(windows) =
        State::parse(fixed, &text("T 3000 6000 1 1000 1767225600003000")).unwrap()
    else {
        panic!("not a window");
    };
    for (length, serves) in [(999, false), (1_000, true), (3_000, true), (3_001, false)] {
        assert_eq!(windows[0].serves(length), serves, "{length}");
    }
}

#[test]
fn a_log_has_its_newest_entry_and_the_total_first() {
    let found = log(&["T 2 7 100 10 60 70", "1767225599999990 3", "1767225599999995 2"]).unwrap();
    let at = 1_767_225_600_000_000;
    let older = [(10, 3), (5, 2)].map(|(ago, count)| Entry { at: at - ago, count });
    let expected = Log {
        newest: Entry { at, count: 2 },
        total: 7,
        largest: 100,
        writers: vec![Writer { slot: 10, span: 60, horizon: 70, newest: at }],
        older: older.to_vec(),
    };
    assert_eq!(found, expected);
    assert_eq!(found.reach(), 70);
    // Entries end a span after the start of their slot.
    assert_eq!(found.end_of(&older[1]), at + 50);
}

#[test]
fn a_log_of_several_quotas_has_one_span_for_each() {
    let found = log(&["T 2 7 100, 1 60 70 1767225599999990, 10 30 5 T"]).unwrap();
    let at = 1_767_225_600_000_000;
    let [long, short] = [
        Writer { slot: 1, span: 60, horizon: 70, newest: at - 10 },
        Writer { slot: 10, span: 30, horizon: 5, newest: at },
    ];
    assert_eq!((found.writers.as_slice(), found.reach()), (&[long, short][..], 70));
    // The longer one counts later permits only as long as its own newest ones.
    let ends = [(at - 20, at + 40), (at - 10, at + 50), (at, at + 50)];
    for (at, end) in ends {
        assert_eq!(found.end_of(&Entry { at, count: 1 }), end, "{at}");
    }
    assert_eq!(short.end_of(&found.newest), at + 30);
    assert!(log(&["T 1 1 1, 1 9 9 T, 1 8 8 T, 1 7 7 T, 1 6 6 T"]).is_some());
    for head in [
        "T 1 1 1",
        "T 1 1 1, ",
        "T 1 1 1, 1 9 9",
        // A single one has the other form.
        "T 1 1 1, 1 9 9 T",
        "T 1 1 1, 1 9 9 T,1 8 8 T",
        "T 1 1 1 1 9 9, 1 8 8 T",
        "T 1 1 1, 1 9 9 T, 1 8 8 176722560000000",
        "T 1 1 1, 1 9 9 T, 1 8 8 T, 1 7 7 T, 1 6 6 T, 1 5 5 T",
    ] {
        assert_eq!(log(&[head]), None, "{head}");
    }
}

#[test]
fn an_impossible_log_is_not_decoded() {
    let largest = "T 9007199254740992 9007199254740992 9007199254740992 64000000000000 64000000000000 \
                   158112000000000";
    for elements in [&["T 1 1 0 1 1 0"][..], &[largest], &["T 1 3 1 1 1 0", "1767225599999990 1"]] {
        assert!(log(elements).is_some(), "{elements:?}");
    }
    for elements in [
        &[][..],
        &[""],
        // The form with running totals.
        &["T 1 2 1 60 60"],
        &["T 1 2 1 1 60 60", "1767225599999990 1 1"],
        &["T 1 1 1 1 60 60 60"],
        &["T 2 1 1 1 60 60"],
        &["T 0 1 1 1 60 60"],
        &["T 1 1 1 0 60 60"],
        &["T 1 1 1 61 60 60"],
        &["T 1 1 1 1 64000000000001 60"],
        &["T 1 1 1 1 60 158112000000001"],
        &["T 01 1 1 1 60 60"],
        &["T 1 1 00 1 60 60"],
        &["T 1 9007199254740993 1 1 60 60"],
        &["T 1 1 9007199254740993 1 60 60"],
        &["0767225600000000 1 1 1 1 60 60"],
        &["176722560000000 1 1 1 1 60 60"],
        // Entries that are not in order, or have more permits than the total.
        &["T 1 3 1 1 60 60", "T 1"],
        &["T 1 3 1 1 60 60", "1767225600000001 1"],
        &["T 1 3 1 1 60 60", "1767225599999990 1", "1767225599999990 1"],
        &["T 1 3 1 1 60 60", "1767225599999990 1", "1767225599999989 1"],
        &["T 1 3 1 1 60 60", "1767225599999990 3"],
        &["T 1 3 1 1 60 60", "1767225599999990 1", "1767225599999991 2"],
        &["T 1 3 1 1 60 60", "1767225599999990 0"],
        &["T 1 3 1 1 60 60", "1767225599999990 1", ""],
    ] {
        assert_eq!(log(elements), None, "{elements:?}");
    }
    for family in [Family::SlidingLog, Family::SubWindows] {
        assert!(!is_state(family, "T 1 1 1 1 60 60"));
    }
}

#[test]
fn leases_are_one_time() {
    assert_eq!(parse_leases(AT), Some(1_767_225_600_000_000));
    for text in ["", "0", "-1", "176722560000000", "1767225600000000.5", "T"] {
        assert_eq!(parse_leases(text), None, "{text}");
    }
}
