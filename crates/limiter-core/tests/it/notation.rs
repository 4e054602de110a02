//! What people write is read as they mean it, and prints to something that reads back.

use std::time::Duration;

use limiter_core::{
    ErrorKind, Kind, Policy, Quota,
    algorithm::{Slots, Start},
};
use proptest::prelude::*;

#[test]
fn quotas_are_read_and_print_canonically() {
    let rows = [
        ("100/min", (100, 60_000, 100), "100/min"),
        ("100/min burst 20", (100, 60_000, 20), "100/min burst 20"),
        ("100/min burst 100", (100, 60_000, 100), "100/min"),
        ("5/s", (5, 1_000, 5), "5/s"),
        ("5/sec", (5, 1_000, 5), "5/s"),
        ("5/second", (5, 1_000, 5), "5/s"),
        ("5/60s", (5, 60_000, 5), "5/min"),
        ("5/90s", (5, 90_000, 5), "5/90s"),
        ("5/m", (5, 60_000, 5), "5/min"),
        ("5/minute", (5, 60_000, 5), "5/min"),
        ("5/60min", (5, 3_600_000, 5), "5/h"),
        ("5/hour", (5, 3_600_000, 5), "5/h"),
        ("5/36h", (5, 36 * 3_600_000, 5), "5/36h"),
        ("5/day", (5, 86_400_000, 5), "5/d"),
        ("5/24h", (5, 86_400_000, 5), "5/d"),
        ("3/2d", (3, 2 * 86_400_000, 3), "3/2d"),
        ("10/500ms", (10, 500, 10), "10/500ms"),
        ("10/ms", (10, 1, 10), "10/ms"),
        ("10/1000ms", (10, 1_000, 10), "10/s"),
        ("1_000/h", (1_000, 3_600_000, 1_000), "1000/h"),
        ("1_000_000/1_000s burst 1_0", (1_000_000, 1_000_000, 10), "1000000/1000s burst 10"),
        ("007/01s", (7, 1_000, 7), "7/s"),
        ("  10  /  5  s  burst   7  ", (10, 5_000, 7), "10/5s burst 7"),
        ("1/366d", (1, 366 * 86_400_000, 1), "1/366d"),
        ("18446744073709551615/s", (u64::MAX, 1_000, u64::MAX), "18446744073709551615/s"),
    ];
    for (text, (permits, window, burst), printed) in rows {
        let window = Duration::from_millis(window);
        let quota = Quota::per(permits, window).unwrap().with_burst(burst).unwrap();
        assert_eq!(text.parse::<Quota>().unwrap(), quota, "{text}");
        assert_eq!(quota.to_string(), printed);
    }
}

#[test]
fn bad_quotas_are_refused_in_words_that_quote_them() {
    let rows = [
        ("", "there is no \"/\"; write permits per time, as in 100/min"),
        ("100", "there is no \"/\"; write permits per time, as in 100/min"),
        ("100 per minute", "there is no \"/\"; write permits per time, as in 100/min"),
        ("/", "\"\" is no number; use digits, as in 100 or 1_000"),
        ("/min", "\"\" is no number; use digits, as in 100 or 1_000"),
        ("-1/min", "\"-1\" is no number; use digits, as in 100 or 1_000"),
        ("+1/min", "\"+1\" is no number; use digits, as in 100 or 1_000"),
        ("1.5/min", "\"1.5\" is no number; use digits, as in 100 or 1_000"),
        ("_1/min", "\"_1\" is no number; use digits, as in 100 or 1_000"),
        ("1__0/min", "\"1__0\" is no number; use digits, as in 100 or 1_000"),
        ("1 0/min", "\"1 0\" is no number; use digits, as in 100 or 1_000"),
        ("\u{663}/min", "\"\u{663}\" is no number; use digits, as in 100 or 1_000"),
        (
            "18446744073709551616/s",
            "\"18446744073709551616\" is too large; use at most 18446744073709551615",
        ),
        ("0/min", "a quota of 0 permits per 60s: allow at least 1"),
        ("100/", "there is no unit of time; use ms, s, min, h or d"),
        ("100/5", "there is no unit of time; use ms, s, min, h or d"),
        ("100/fortnight", "\"fortnight\" is no unit of time; use ms, s, min, h or d"),
        ("100/min.", "\"min.\" is no unit of time; use ms, s, min, h or d"),
        ("100/Min", "\"Min\" is no unit of time; use ms, s, min, h or d"),
        ("100/5\u{b5}s", "\"\u{b5}s\" is no unit of time; use ms, s, min, h or d"),
        ("100/_5s", "\"_5\" is no number; use digits, as in 100 or 1_000"),
        ("100/0s", "a window of 0ns: use at least 1ms"),
        ("100/367d", "a window of 367d is too long; use at most 366d"),
        ("100/213503982335d", "a window of 213503982335d is too long; use at most 366d"),
        (
            "1/18446744073709551615ms",
            "a window of 18446744073709551615ms is too long; use at most 366d",
        ),
        ("100/min 20", "\"20\" is unknown; after the time comes a burst, as in burst 20"),
        ("100/min, 5/s", "\"min,\" is no unit of time; use ms, s, min, h or d"),
        ("100/min burst", "\"burst\" is unknown; after the time comes a burst, as in burst 20"),
        ("100/min burst20", "\"burst20\" is unknown; after the time comes a burst, as in burst 20"),
        ("100/min burst x", "\"x\" is no number; use digits, as in 100 or 1_000"),
        ("100/min burst 5 6", "\"5 6\" is no number; use digits, as in 100 or 1_000"),
        ("100/min burst 0", "a burst of 0 for a quota of 100/min: use at least 1"),
        (
            "1/d burst 1_831",
            "a burst of 1831 for a quota of 1/d: it would take longer than 1830 days to recover",
        ),
    ];
    for (text, fault) in rows {
        let error = text.parse::<Quota>().unwrap_err();
        assert_eq!(error.to_string(), format!("a quota {text:?}: {fault}"));
        assert_eq!(error.kind(), ErrorKind::InvalidQuota);
    }
}

#[test]
fn kinds_are_read_and_print_alike() {
    let slots = |number| Slots::strict(number).unwrap();
    let loose = |number| Slots::loose(number).unwrap();
    let rows = [
        ("gcra", Kind::Gcra),
        ("token-bucket", Kind::TokenBucket),
        ("leaky-bucket", Kind::LeakyBucket),
        ("leaky-queue depth 50", Kind::LeakyQueue { depth: 50 }),
        ("fixed-window", Kind::FixedWindow(Start::FirstUse)),
        ("fixed-window aligned", Kind::FixedWindow(Start::Aligned)),
        ("sub-windows 60 slots", Kind::SubWindows(slots(60))),
        ("sub-windows 60 slots paced", Kind::SubWindows(slots(60).paced())),
        ("sub-windows 60 slots loose", Kind::SubWindows(loose(60))),
        ("sub-windows 60 slots loose paced", Kind::SubWindows(loose(60).paced())),
        ("sliding-counter", Kind::SlidingCounter),
        ("sliding-log", Kind::SlidingLog),
    ];
    for (text, kind) in rows {
        assert_eq!(text.parse::<Kind>().unwrap(), kind);
        assert_eq!(kind.to_string(), text);
    }
    let spaced = "  leaky-queue \t depth 1_000 ".parse::<Kind>().unwrap();
    assert_eq!(spaced, Kind::LeakyQueue { depth: 1_000 });
}

#[test]
fn bad_kinds_are_refused_in_words_that_quote_them() {
    let all = "use gcra, token-bucket, leaky-bucket, leaky-queue, fixed-window, sub-windows, \
               sliding-counter or sliding-log";
    let sub_windows = "write sub-windows N slots, and then loose, paced, or loose paced";
    let rows = [
        ("", format!("\"\" is none; {all}")),
        ("slidinglog", format!("\"slidinglog\" is none; {all}")),
        ("GCRA", format!("\"GCRA\" is none; {all}")),
        ("tok\u{e9}n bucket", format!("\"tok\u{e9}n\" is none; {all}")),
        ("gcra paced", "nothing can follow gcra".into()),
        ("leaky-queue", "write leaky-queue depth N".into()),
        ("leaky-queue 50", "write leaky-queue depth N".into()),
        ("leaky-queue depth deep", "\"deep\" is no number; use digits, as in 100 or 1_000".into()),
        ("fixed-window by clock", "write fixed-window, or fixed-window aligned".into()),
        ("sub-windows", sub_windows.into()),
        ("sub-windows 60", sub_windows.into()),
        ("sub-windows 60 slots paced loose", sub_windows.into()),
        ("sub-windows 0 slots", "0 slots are no window; use 1 to 10000".into()),
        ("sub-windows 10001 slots", "10001 slots are no window; use 1 to 10000".into()),
        (
            "sub-windows 4294967297 slots loose",
            "4294967297 slots are no window; use 1 to 10000".into(),
        ),
    ];
    for (text, fault) in rows {
        let error = text.parse::<Kind>().unwrap_err();
        assert_eq!(error.to_string(), format!("an algorithm {text:?}: {fault}"));
        assert_eq!(error.kind(), ErrorKind::InvalidSetting);
    }
}

#[test]
fn limits_are_read_and_print_canonically() {
    let rows = [
        ("100/min", "100/min"),
        ("100/min by gcra", "100/min"),
        ("100/min burst 20 by token-bucket", "100/min burst 20 by token-bucket"),
        ("100/min\tby\tsliding-log", "100/min by sliding-log"),
        ("60/60s by sub-windows 60 slots paced", "60/min by sub-windows 60 slots paced"),
    ];
    for (text, printed) in rows {
        let policy = Policy::parse("api", text).unwrap();
        assert_eq!((policy.limits().len(), policy.limits()[0].name()), (1, "api"));
        assert_eq!(policy.limits()[0].to_string(), printed);
    }
}

#[test]
fn bad_limits_are_refused_by_the_part_that_is_wrong() {
    let rows = [
        (
            "100/fortnight by gcra",
            ErrorKind::InvalidQuota,
            "a quota \"100/fortnight\": \"fortnight\" is no unit of time; use ms, s, min, h or d",
        ),
        (
            "by gcra",
            ErrorKind::InvalidQuota,
            "a quota \"\": there is no \"/\"; write permits per time, as in 100/min",
        ),
        (
            "100/min by gcra by gcra",
            ErrorKind::InvalidSetting,
            "an algorithm \"gcra by gcra\": nothing can follow gcra",
        ),
        (
            "100/min burst 20 by sliding-log",
            ErrorKind::InvalidQuota,
            "a quota of 100/min burst 20 in a window: the permits of a window are its burst; \
             leave the burst out",
        ),
        (
            "100/min gcra",
            ErrorKind::InvalidQuota,
            "a quota \"100/min gcra\": \"gcra\" is unknown; after the time comes a burst, as in \
             burst 20",
        ),
    ];
    for (text, kind, message) in rows {
        let error = Policy::parse("api", text).unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (kind, message));
    }
    assert_eq!(Policy::parse("", "1/s").unwrap_err().kind(), ErrorKind::InvalidName);
}

proptest! {
    #[test]
    fn every_quota_reads_back(quota in quotas()) {
        prop_assert_eq!(quota.to_string().parse::<Quota>().unwrap(), quota);
    }

    #[test]
    fn every_kind_reads_back(kind in kinds()) {
        prop_assert_eq!(kind.to_string().parse::<Kind>().unwrap(), kind);
    }

    #[test]
    fn every_limit_reads_back(quota in quotas(), kind in kinds()) {
        // Without a burst most kinds can apply it.
        let even = Quota::per(quota.permits(), quota.window()).unwrap();
        for quota in [quota, even] {
            if let Ok(policy) = Policy::new("api", kind, quota) {
                let text = policy.limits()[0].to_string();
                prop_assert_eq!(Policy::parse("api", &text).unwrap(), policy);
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[0-9_/a-z ]{0,30}|\\PC{0,30}") {
        if let Ok(policy) = Policy::parse("api", &text) {
            let printed = policy.limits()[0].to_string();
            prop_assert_eq!(Policy::parse("api", &printed).unwrap(), policy);
        }
    }
}

fn quotas() -> impl Strategy<Value = Quota> {
    let millis = prop_oneof![1..=366_u64, 1..=366 * 86_400_000_u64];
    let unit = prop_oneof![Just(1), Just(1_000), Just(60_000), Just(3_600_000), Just(86_400_000)];
    let magnitude = (any::<u64>(), 0..64_u32).prop_map(|(bits, shift)| (bits >> shift).max(1));
    let burst = proptest::option::of(magnitude.clone());
    (magnitude, millis, unit, burst).prop_filter_map(
        "a quota that can't be held",
        |(permits, number, unit, burst)| {
            let quota = Quota::per(permits, Duration::from_millis(number * unit)).ok()?;
            burst.map_or(Some(quota), |burst| quota.with_burst(burst).ok())
        },
    )
}

fn kinds() -> impl Strategy<Value = Kind> {
    let slots =
        (1..=Slots::MAX, any::<bool>(), any::<bool>()).prop_map(|(number, loose, paced)| {
            let make = if loose { Slots::loose } else { Slots::strict };
            let slots = make(number).unwrap();
            Kind::SubWindows(if paced { slots.paced() } else { slots })
        });
    prop_oneof![
        Just(Kind::Gcra),
        Just(Kind::TokenBucket),
        Just(Kind::LeakyBucket),
        any::<u64>().prop_map(|depth| Kind::LeakyQueue { depth }),
        Just(Kind::FixedWindow(Start::FirstUse)),
        Just(Kind::FixedWindow(Start::Aligned)),
        slots,
        Just(Kind::SlidingCounter),
        Just(Kind::SlidingLog),
    ]
}
