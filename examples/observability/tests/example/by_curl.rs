//! Requests by curl.

use limiter_rig::program::Program;

use crate::{command, requests_total};

#[test]
fn ten_requests_are_admitted_and_counted_to_the_unit() {
    // A permit recovers after six minutes, which no test takes.
    let program = Program::start(command().env("LIMIT", "10/h"));
    let from = |address: &str| program.curl(&["-H", &format!("x-forwarded-for: {address}")], "/");
    for index in 0..13 {
        let response = from("192.0.2.1");
        assert_eq!(response.field("ratelimit-policy"), Some("\"api\";q=10;w=3600"));
        let expected = if index < 10 { (200, false) } else { (429, true) };
        assert_eq!((response.status, response.field("retry-after").is_some()), expected, "{index}");
    }
    assert_eq!(from("192.0.2.2").status, 200);

    assert_eq!(requests_total(&program, ["allowed", "denied"]), [11, 3]);
    // The metrics themselves are not limited.
    let metrics = program.curl(&[], "/metrics").body;
    let expected = [
        "ratelimit_window_utilization_count{policy=\"api\"} 14",
        // Nine by the first address, one by the second.
        "ratelimit_window_utilization_bucket{policy=\"api\",le=\"0.9\"} 10",
        "ratelimit_window_utilization_bucket{policy=\"api\",le=\"1\"} 14",
        "ratelimit_window_used_sum{policy=\"api\"} 86",
        "ratelimit_near_limit_total{policy=\"api\"} 4",
        "ratelimit_check_duration_seconds_count{policy=\"api\",store=\"memory\"} 14",
    ];
    for line in expected {
        assert!(metrics.lines().any(|found| found == line), "no {line} in\n{metrics}");
    }
}

#[test]
fn an_invalid_limit_is_quoted_and_ends_the_program() {
    let output = command().env("LIMIT", "0/min").output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(error.contains("invalid limit \"0/min\": permits must be at least 1"), "{error}");
}
