//! For how long a response holds the next request.

use std::ops::Range;

use crate::*;

type Row<'r> = (u16, Vec<(&'r str, String)>, Range<f64>);

/// A response to the first request, and when the second one may be sent, in seconds.
#[tokio::test(start_paused = true)]
async fn the_next_request_is_sent_when_the_response_says_so() {
    // Real time passes while tokio's clock does not move, so dates are a bit early.
    let date = |seconds| SystemTime::now() + seconds * SECOND;
    let unix = date(100).duration_since(UNIX_EPOCH).unwrap();
    let http_date = httpdate::fmt_http_date(date(100));
    let retry_after = |status, value: &str, seconds: Range<f64>| {
        (status, vec![("retry-after", value.to_owned())], seconds)
    };
    let reset = |value: &str| {
        let fields = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", value)];
        (200, fields.map(|(name, value)| (name, value.to_owned())).into(), 98.0..102.0)
    };
    let two = |first: &str, second: &str, seconds: Range<f64>| {
        let fields = [("ratelimit-policy", first), ("ratelimit", second)];
        (200, fields.map(|(name, value)| (name, value.to_owned())).into(), seconds)
    };
    let all = |status, fields: Fields<'static>, seconds: Range<f64>| {
        (status, fields.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(), seconds)
    };
    let zeros = format!("{}30", "0".repeat(5_000));
    let rows: Vec<Row<'_>> = vec![
        retry_after(429, "7", 7.0..8.0),
        retry_after(503, "7", 7.0..8.0),
        retry_after(429, &httpdate::fmt_http_date(date(30)), 20.0..31.1),
        // A value that is not a time pauses no longer than a refusal without one.
        retry_after(429, "", 0.0..3.0),
        retry_after(429, "soon", 0.0..3.0),
        retry_after(429, "-1", 0.0..3.0),
        retry_after(429, "1.5", 0.0..3.0),
        retry_after(429, "Fri, 31 Dec 1999 23:59:59 GMT", 0.0..3.0),
        // Neither is a field of more than 4,096 bytes.
        retry_after(429, &zeros, 0.0..3.0),
        // A redirect is not a refusal.
        retry_after(301, "100", 0.0..1.0),
        // The longest durations neither overflow nor panic.
        retry_after(429, "86400", 86_400.0..86_401.0),
        two(r#""api";q=10;w=60"#, r#""api";r=0;t=17"#, 17.0..19.0),
        // A reset is a number of seconds or a date, by its size.
        reset("100"),
        reset("100.5"),
        reset(&unix.as_secs().to_string()),
        reset(&unix.as_millis().to_string()),
        reset(&http_date),
        // Draft 07 alone had one dictionary, which is not read, and hides no other fields.
        (200, vec![("ratelimit", "limit=100, remaining=0, reset=30".into())], 0.0..1.0),
        (
            200,
            vec![
                ("ratelimit", "limit=100, remaining=50, reset=30".into()),
                ("x-ratelimit-remaining", "0".into()),
                ("x-ratelimit-reset", "20".into()),
            ],
            20.0..22.0,
        ),
        // Nor does a list that names no limit.
        all(
            200,
            &[("ratelimit", "100"), ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "30")],
            30.0..32.0,
        ),
        // Of several values of a field, the slowest decides.
        all(429, &[("retry-after", "1"), ("retry-after", "30")], 30.0..32.0),
        all(429, &[("retry-after-ms", "0"), ("retry-after", "30")], 30.0..32.0),
        all(429, &[("retry-after-ms", "500"), ("retry-after", "30")], 0.0..3.0),
        all(200, &[("ratelimit", r#""a";r=0;t=30"#), ("ratelimit", r#""a";r=7;t=20"#)], 30.0..32.0),
        all(
            200,
            &[
                ("x-ratelimit-remaining", "9"),
                ("x-ratelimit-remaining", "0"),
                ("x-ratelimit-reset", "30"),
                ("x-ratelimit-reset", "20"),
            ],
            30.0..32.0,
        ),
        // A time until the reset is before the time of the reset.
        all(
            200,
            &[
                ("x-ratelimit-limit", "5"),
                ("x-ratelimit-remaining", "0"),
                ("x-ratelimit-reset", "99"),
                ("x-ratelimit-reset-after", "64.57"),
            ],
            65.0..67.0,
        ),
        all(
            200,
            &[
                ("x-ratelimit-limit", "5"),
                ("x-ratelimit-remaining", "0"),
                ("x-ratelimit-reset-after", "64.57"),
            ],
            65.0..67.0,
        ),
        // The window of the limit is in the list behind it.
        all(
            429,
            &[("ratelimit-limit", "100, 9;w=7200, 100;w=3600"), ("ratelimit-remaining", "0")],
            3_600.0..3_602.0,
        ),
        // Two limits may be equal, or announce no quota.
        all(
            200,
            &[
                ("x-ratelimit-limit-requests", "1000"),
                ("x-ratelimit-remaining-requests", "0"),
                ("x-ratelimit-reset-requests", "6m0s"),
                ("x-ratelimit-limit-tokens", "1000"),
                ("x-ratelimit-remaining-tokens", "500"),
                ("x-ratelimit-reset-tokens", "1s"),
            ],
            360.0..362.0,
        ),
        all(
            200,
            &[
                ("x-ratelimit-remaining-requests", "0"),
                ("x-ratelimit-reset-requests", "6m0s"),
                ("x-ratelimit-remaining-tokens", "500"),
                ("x-ratelimit-reset-tokens", "1s"),
            ],
            360.0..362.0,
        ),
        all(
            200,
            &[
                ("anthropic-ratelimit-tokens-limit", "40000"),
                ("anthropic-ratelimit-tokens-remaining", "0"),
                ("anthropic-ratelimit-tokens-reset", "2026-01-31T12:01:00Z"),
                ("anthropic-ratelimit-input-tokens-limit", "40000"),
                ("anthropic-ratelimit-input-tokens-remaining", "20000"),
                ("anthropic-ratelimit-input-tokens-reset", "2026-01-31T12:00:30Z"),
                ("date", "Sat, 31 Jan 2026 12:00:00 GMT"),
            ],
            60.0..62.0,
        ),
        // Nothing remains of a limit in another unit.
        all(
            200,
            &[
                ("ratelimit-policy", r#""b";q=1000;w=60;qu="content-bytes""#),
                ("ratelimit", r#""b";r=0;t=30"#),
            ],
            30.0..32.0,
        ),
    ];
    let mut wrong = Vec::new();
    for (status, fields, seconds) in rows {
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let layer = unlimited().within(Duration::MAX).longest_pause(Duration::MAX);
        let sent = second_after(&layer, response(status, &fields)).await.as_secs_f64();
        if !seconds.contains(&sent) {
            wrong.push(format!("{status} {fields:?}: {sent}, expected {seconds:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn a_hostile_pause_is_capped() {
    let layer = unlimited().longest_pause(20 * SECOND);
    for field in ["99999999999", "99999999999999999999999999", "18446744073709551615"] {
        let sent = second_after(&layer, response(429, &[("retry-after", field)])).await;
        assert!(sent >= 20 * SECOND && sent < 21 * SECOND, "{field}: {sent:?}");
        sleep(20 * SECOND).await;
    }
}

/// A pace that no quota can have is the slowest one.
#[tokio::test(start_paused = true)]
async fn a_hostile_pace_is_capped() {
    let slowest: [Fields<'_>; 4] = [
        &[("ratelimit-policy", r#""a";q=1;w=999999999999"#)],
        &[("ratelimit-policy", r#""a";q=999;w=999999999999"#)],
        &[("x-ratelimit-remaining", "1"), ("x-ratelimit-reset", "99999999999999999999")],
        &[("x-ratelimit-remaining", "99999"), ("x-ratelimit-reset", "99999999999999999999")],
    ];
    for fields in slowest {
        let layer = unlimited().within(Duration::MAX).spend(Spend::Evenly);
        let sent = second_after(&layer, response(200, fields)).await;
        assert!((7_200..7_202).contains(&sent.as_secs()), "{fields:?}: {sent:?}");
    }
}

/// A response from a cache has an age. Some caches send `Age: 0` with each that they have just fetched.
#[tokio::test(start_paused = true)]
async fn a_response_with_an_age_sets_no_pause_and_no_pace() {
    let advice: [(u16, Fields<'_>); 5] = [
        (429, &[("retry-after", "30")]),
        (503, &[("retry-after", "30")]),
        (200, &[("ratelimit", r#""api";r=0;t=30"#)]),
        (200, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "30")]),
        (200, &[("ratelimit-policy", r#""api";q=1;w=30"#)]),
    ];
    let has_age = [&["1"][..], &["3600"], &["99999999999999999999"], &["10, 0"], &["10", "0"]];
    // A value that is not a number is not an age.
    let none = [&[][..], &["0"], &["000"], &[""], &["-1"], &["1.5"], &["old"], &["0, 10"]];
    let ages = has_age.map(|age| (age, 0..1)).into_iter().chain(none.map(|age| (age, 26..40)));
    for (age, seconds) in ages {
        for (status, fields) in advice {
            let age = age.iter().map(|age| ("age", *age));
            let fields: Vec<_> = fields.iter().copied().chain(age).collect();
            let waited = second_after(&unlimited(), response(status, &fields)).await;
            assert!(seconds.contains(&waited.as_secs()), "{fields:?}: {waited:?}");
        }
    }
}

/// A response from a cache returns, and was not counted by the server.
#[tokio::test(start_paused = true)]
async fn responses_from_a_cache_spend_nothing_and_return() {
    let log = Log::default();
    let client = client(&unlimited(), &log, |index| match index {
        0 => response(200, &[("ratelimit", r#""api";r=1;t=3600"#)]),
        _ => response(200, &[("age", "10"), ("ratelimit", r#""api";r=0;t=3600"#)]),
    });
    let start = Instant::now();
    for _ in 0..100 {
        assert_eq!(get(&client, "a.example").await.unwrap(), 200);
    }
    assert!(start.elapsed() < 2 * SECOND, "{:?}", start.elapsed());
}
