//! Pauses that servers ask for, and servers that announce nothing.

use std::time::{Duration, SystemTime};

use limiter_client::{NotSent, ThrottleError, ThrottleLayer};
use limiter_core::{Policy, Quota};
use tokio::time::{Instant, timeout};
use tower::{Layer, ServiceExt};

use crate::server::{Form, Limit, server};
use crate::{Fields, Log, client, get, limiter, response, send_all, unlimited};

const SECOND: Duration = Duration::from_secs(1);

/// Returns when the second of two requests was sent, after the first was answered like this.
async fn second_request(layer: &ThrottleLayer, status: u16, retry_after: &str) -> Duration {
    let (log, start) = (Log::default(), Instant::now());
    let fields = [("retry-after", retry_after.to_owned())];
    let client = client(layer, &log, move |index| {
        let [(name, value)] = &fields;
        response(if index == 0 { status } else { 200 }, &[(name, value)])
    });
    assert_eq!(get(&client, "a.example").await.unwrap(), status);
    assert_eq!(get(&client, "a.example").await.unwrap(), 200);
    *log.since(start).get(1).unwrap()
}

#[tokio::test(start_paused = true)]
async fn no_request_is_sent_before_retry_after_has_passed() {
    for status in [429, 503] {
        let sent = second_request(&unlimited(), status, "7").await;
        assert!(sent >= 7 * SECOND && sent < 8 * SECOND, "{status}: {sent:?}");
    }
    let date = httpdate::fmt_http_date(SystemTime::now() + 30 * SECOND);
    let sent = second_request(&unlimited(), 429, &date).await;
    assert!(sent >= 20 * SECOND && sent <= 31 * SECOND, "{date}: {sent:?}");
}

#[tokio::test(start_paused = true)]
async fn a_field_that_is_no_time_causes_no_pause() {
    for field in ["", "soon", "-1", "1.5", "Fri, 31 Dec 1999 23:59:59 GMT"] {
        let sent = second_request(&unlimited(), 429, field).await;
        assert!(sent < 3 * SECOND, "{field}: {sent:?}");
    }
    // A redirect is not a refusal.
    let sent = second_request(&unlimited(), 301, "100").await;
    assert!(sent < SECOND, "{sent:?}");
}

#[tokio::test(start_paused = true)]
async fn a_hostile_pause_is_capped() {
    let layer = unlimited().longest_pause(20 * SECOND);
    for field in ["99999999999", "99999999999999999999999999", "18446744073709551615"] {
        let sent = second_request(&layer.clone(), 429, field).await;
        assert!(sent >= 20 * SECOND && sent < 21 * SECOND, "{field}: {sent:?}");
        tokio::time::sleep(20 * SECOND).await;
    }
}

/// The longest durations neither overflow nor panic.
#[tokio::test(start_paused = true)]
async fn the_longest_settings_are_as_good_as_for_ever() {
    let layer = unlimited().within(Duration::MAX).longest_pause(Duration::MAX);
    let day = 86_400 * SECOND;
    let sent = second_request(&layer, 429, &day.as_secs().to_string()).await;
    assert!(sent >= day && sent < day + SECOND, "{sent:?}");
    let log = Log::default();
    let client =
        client(&layer, &log, |_| response(429, &[("retry-after", "18446744073709551615")]));
    assert_eq!(get(&client, "b.example").await.unwrap(), 429);
    let waiting = timeout(7 * day, get(&client, "b.example")).await;
    assert!(!matches!(waiting, Ok(Ok(_))), "{waiting:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pause_is_of_the_whole_host_and_of_no_other() {
    let (log, layer) = (Log::default(), unlimited());
    let refusing = client(&layer, &log, |_| response(429, &[("retry-after", "30")]));
    let other = client(&layer, &log, |_| response(200, &[]));
    assert_eq!(get(&refusing, "a.example").await.unwrap(), 429);
    let start = Instant::now();
    // Another clone of the layer, another path.
    assert_eq!(get(&other, "b.example").await.unwrap(), 200);
    assert_eq!(get(&other, "a.example:8080").await.unwrap(), 200);
    assert!(start.elapsed() < SECOND);
    assert_eq!(get(&other, "A.example").await.unwrap(), 200);
    assert!(start.elapsed() > 29 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_are_not_sent_into_a_pause() {
    let log = Log::default();
    let layer = ThrottleLayer::with_limiter(limiter(Quota::per_second(10).with_burst(1))).unwrap();
    let client = client(&layer, &log, |index| match index {
        5 => response(429, &[("retry-after", "10")]),
        _ => response(200, &[]),
    });
    let start = Instant::now();
    send_all(&client, "a.example", 20).await;
    let sent = log.since(start);
    assert_eq!(sent.len(), 20);
    let refused = sent[5] + Duration::from_millis(10);
    let into_pause = sent.iter().filter(|at| **at > refused && **at < refused + 10 * SECOND);
    assert_eq!(into_pause.count(), 0, "{sent:?}");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_would_wait_too_long_fails_at_once() {
    let log = Log::default();
    let client = client(&unlimited(), &log, |_| response(429, &[("retry-after", "300")]));
    assert_eq!(get(&client, "a.example").await.unwrap(), 429);
    let start = Instant::now();
    let error = get(&client, "a.example").await.unwrap_err();
    assert!(start.elapsed() < SECOND);
    let ThrottleError::NotSent(NotSent::WaitTooLong { retry_after: Some(wait), .. }) = error else {
        panic!("{error:?}");
    };
    assert!(wait > 299 * SECOND && wait <= 300 * SECOND, "{wait:?}");
    assert_eq!(log.since(start).len(), 1);
}

/// Asserts that a client of a server that admits 50/s, and never says when to retry, is refused less
/// than one request in ten, and uses most of the limit.
async fn assert_found_out(fields: Fields<'static>) {
    let limit = Limit::new(Policy::gcra("api", Quota::per_second(50).with_burst(5)));
    let log = Log::default();
    let server = server(&limit, Form::None, &log).map_response(move |mut response| {
        response.headers_mut().extend(crate::response(200, fields).headers().clone());
        response
    });
    let own = limiter(Quota::per_second(500).with_burst(10));
    let layer = ThrottleLayer::with_limiter(own).unwrap().within(Duration::from_secs(3_600));
    let client = layer.queue(10_000).layer(server);
    let start = Instant::now();
    let all = send_all(&client, "a.example", 6_000);
    timeout(Duration::from_secs(600), all).await.unwrap();
    let seconds = start.elapsed().as_secs_f64();
    let (admitted, refused) = (log.count(200), log.count(429));
    println!("{admitted} admitted, {refused} refused in {seconds:.1} s");
    assert!(refused * 10 < admitted, "{refused} of {admitted}");
    assert!(f64::from(u32::try_from(admitted).unwrap()) / seconds > 0.6 * 50.0, "{seconds}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_announces_nothing_is_found_out() {
    assert_found_out(&[]).await;
}

/// As of a server with a second limit that it does not announce.
#[tokio::test(start_paused = true)]
async fn a_server_that_admits_less_than_it_announces_is_found_out() {
    assert_found_out(&[("ratelimit-policy", r#""api";q=400;w=1"#)]).await;
}

/// A server that refuses everything is asked ever more slowly, but never stops the client: it is asked
/// once in 64 s, or in the longest pause if that is shorter.
#[tokio::test(start_paused = true)]
async fn refusals_slow_a_client_down_to_one_request_in_64_seconds() {
    for longest in [20 * SECOND, 10_000_000 * SECOND] {
        let log = Log::default();
        let layer =
            ThrottleLayer::with_limiter(limiter(Quota::per_second(10).with_burst(1))).unwrap();
        let layer = layer.longest_pause(longest).within(Duration::MAX);
        let client = client(&layer, &log, |_| response(429, &[]));
        let start = Instant::now();
        for _ in 0..100 {
            assert_eq!(get(&client, "a.example").await.unwrap(), 429);
        }
        let sent = log.since(start);
        let gaps: Vec<_> = sent.windows(2).map(|pair| pair[1] - pair[0]).skip(10).collect();
        let slowest = longest.min(64 * SECOND);
        let is_slowest = |gap: &Duration| *gap >= slowest && *gap <= slowest + SECOND / 10;
        assert!(gaps.iter().all(is_slowest), "{gaps:?}");
    }
}

/// After an outage of the server, the pace is back soon: it was cut once.
#[tokio::test(start_paused = true)]
async fn an_outage_of_the_server_cuts_the_pace_once() {
    let log = Log::default();
    let layer = ThrottleLayer::with_limiter(limiter(Quota::per_second(100).with_burst(1))).unwrap();
    let client = client(&layer.within(Duration::MAX), &log, |index| match index {
        100..115 => response(503, &[]),
        _ => response(200, &[]),
    });
    for _ in 0..115 {
        get(&client, "a.example").await.unwrap();
    }
    let start = Instant::now();
    for _ in 0..600 {
        get(&client, "a.example").await.unwrap();
    }
    // A pause of 64 s, and 600 requests at 75/s or more.
    assert!(start.elapsed() < (64 + 8) * SECOND, "{:?}", start.elapsed());
}
