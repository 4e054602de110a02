//! Responses from a cache, which have the field `Age`.

use std::time::Duration;

use tokio::time::Instant;

use crate::{Fields, Log, client, get, response, unlimited};

/// Returns how long a second request has waited after the first was answered with these fields.
async fn wait_after(status: u16, fields: Fields<'static>, age: &[&'static str]) -> Duration {
    let fields: Vec<_> =
        fields.iter().copied().chain(age.iter().map(|age| ("age", *age))).collect();
    let log = Log::default();
    let client = client(&unlimited(), &log, move |index| match index {
        0 => response(status, &fields),
        _ => response(200, &[]),
    });
    let start = Instant::now();
    for expected in [status, 200] {
        assert_eq!(get(&client, "a.example").await.unwrap(), expected);
    }
    log.since(start)[1]
}

const ADVICE: [(u16, Fields<'static>); 5] = [
    (429, &[("retry-after", "30")]),
    (503, &[("retry-after", "30")]),
    (200, &[("ratelimit", r#""api";r=0;t=30"#)]),
    (200, &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "30")]),
    (200, &[("ratelimit-policy", r#""api";q=1;w=30"#)]),
];

#[tokio::test(start_paused = true)]
async fn a_response_with_an_age_sets_no_pause_and_no_pace() {
    for (status, fields) in ADVICE {
        for age in [&["1"][..], &["3600"], &["99999999999999999999"], &["10, 0"], &["10", "0"]] {
            let waited = wait_after(status, fields, age).await;
            assert!(waited < Duration::from_secs(1), "{fields:?} {age:?}: {waited:?}");
        }
    }
}

/// Some caches send `Age: 0` with each response that they have just fetched.
#[tokio::test(start_paused = true)]
async fn an_age_of_zero_and_one_that_is_no_number_change_nothing() {
    for (status, fields) in ADVICE {
        for age in [&[][..], &["0"], &["000"], &[""], &["-1"], &["1.5"], &["old"], &["0, 10"]] {
            let waited = wait_after(status, fields, age).await;
            assert!(waited > Duration::from_secs(25), "{fields:?} {age:?}: {waited:?}");
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
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}
