//! Requests by curl.

use crate::{counts, start};

#[test]
fn subjects_are_limited_and_who_is_refused_most_is_counted() {
    let program = start();
    // A permit recovers after six minutes, which no test takes.
    assert_eq!(program.curl(&["--data-raw", "10/h"], "/playground").status, 200);
    for index in 0..13 {
        let response = program.curl(&[], "/limited?subject=alice");
        assert_eq!(response.field("ratelimit-policy"), Some("\"playground\";q=10;w=3600"));
        let expected = if index < 10 { (200, false) } else { (429, true) };
        assert_eq!((response.status, response.field("retry-after").is_some()), expected, "{index}");
    }
    assert_eq!(program.curl(&[], "/limited?subject=bob").status, 200);
    // Without a subject, and with one that is too long.
    assert_eq!(program.curl(&[], "/limited").status, 400);
    let long = format!("/limited?subject={}", "x".repeat(65));
    assert_eq!(program.curl(&[], &long).status, 400);
    let counts = counts(&program);
    assert_eq!(counts["refused_most"][0]["subject"], "alice");
    assert_eq!(counts["refused_most"][0]["refusals"], 3);
}

#[test]
fn a_new_limit_is_in_force_at_once_and_starts_anew() {
    let program = start();
    let set = |limit: &str| program.curl(&["--data-raw", limit], "/playground");
    for limit in [
        "2/d",
        "2/d burst 3",
        "2/d by fixed-window",
        "2/300d by aligned-window",
        "2/d by sub-windows 10 slots",
        "2/d by sub-windows 10 slots loose",
        "20/d by sub-windows 10 slots paced",
        "2/d by sliding-counter",
        "2/d by sliding-log",
    ] {
        let response = set(limit);
        assert_eq!((response.status, &*response.body), (200, limit));
        let admitted = (0..4).filter(|_| program.curl(&[], "/limited?subject=a").status == 200);
        let expected = if limit.contains("burst 3") { 3 } else { 2 };
        assert_eq!(admitted.count(), expected, "{limit}");
        let counts = counts(&program);
        assert_eq!(
            (&counts["limit"], &counts["outcomes"]["allowed"]),
            (&limit.into(), &expected.into())
        );
    }
}

#[test]
fn a_queue_delays_what_it_does_not_refuse() {
    let program = start();
    let limit = "5/s burst 1 by leaky-queue depth 1";
    assert_eq!(program.curl(&["--data-raw", limit], "/playground").status, 200);
    let bodies: Vec<_> = (0..3).map(|_| program.curl(&[], "/queued?subject=a").body).collect();
    assert_eq!(bodies[0], "admitted\n");
    // A slow machine may send a later request when nothing is queued any more.
    assert!(bodies.iter().all(|body| body.starts_with("admitted")), "{bodies:?}");
    let outcomes = counts(&program)["outcomes"].clone();
    let count = |name: &str| outcomes[name].as_u64().unwrap_or(0);
    assert_eq!(count("allowed") + count("delayed"), 3, "{outcomes}");
}

#[test]
fn an_invalid_limit_is_quoted_and_changes_nothing() {
    let program = start();
    let set = |limit: &str| program.curl(&["--data-raw", limit], "/playground");
    for (text, error) in [
        ("0/min", "invalid limit \"0/min\": permits must be at least 1"),
        ("5/fortnight", "\"fortnight\" is not a time"),
        (
            "5/min by magic",
            "invalid limit \"5/min by magic\": unknown algorithm \"magic\"; use gcra,",
        ),
        (
            "5/min burst 9 by fixed-window",
            "fixed-window has no burst of its own; leave the burst out",
        ),
        ("5/min by leaky-queue", "leaky-queue depth N,"),
    ] {
        let response = set(text);
        assert_eq!(response.status, 400, "{text}");
        assert!(response.body.contains(error), "{text}: {}", response.body);
    }
    assert_eq!(set(&"1".repeat(1_001)).status, 413);
    assert_eq!(counts(&program)["limit"], "10/min");
}
