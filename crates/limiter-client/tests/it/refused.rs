//! Pauses that servers ask for, and servers that announce nothing.

use crate::{
    server::{Form, Limit, server},
    *,
};

#[tokio::test(start_paused = true)]
async fn the_longest_settings_are_as_good_as_for_ever() {
    let layer = unlimited().within(Duration::MAX).longest_pause(Duration::MAX);
    let log = Log::default();
    let client =
        client(&layer, &log, |_| response(429, &[("retry-after", "18446744073709551615")]));
    assert_eq!(get(&client, "b.example").await.unwrap(), 429);
    let waiting = timeout(7 * 86_400 * SECOND, get(&client, "b.example")).await;
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
    let layer = throttle(Quota::per_second(10).with_burst(1));
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

/// A client of a server that admits 50/s, and never says when to retry, is refused less than one request in ten, and uses
/// most of the limit. The server announces nothing, or more: as one with a second limit that it does not announce.
#[tokio::test(start_paused = true)]
async fn a_server_that_admits_less_than_it_announces_is_found_out() {
    let announced: [Fields<'static>; 2] = [&[], &[("ratelimit-policy", r#""api";q=400;w=1"#)]];
    for fields in announced {
        let limit = Limit::new(Policy::gcra("api", Quota::per_second(50).with_burst(5)));
        let log = Log::default();
        let server = server(&limit, Form::None, &log).map_response(move |mut response| {
            response.headers_mut().extend(crate::response(200, fields).headers().clone());
            response
        });
        let layer = throttle(Quota::per_second(500).with_burst(10)).within(3_600 * SECOND);
        let client = layer.queue(10_000).layer(server);
        let start = Instant::now();
        timeout(600 * SECOND, send_all(&client, "a.example", 6_000)).await.unwrap();
        let seconds = start.elapsed().as_secs_f64();
        let (admitted, refused) = (log.count(200), log.count(429));
        assert!(refused * 10 < admitted, "{fields:?}: {refused} of {admitted}");
        assert!(admitted as f64 / seconds > 0.6 * 50.0, "{fields:?}: {seconds}");
    }
}

/// A server that refuses everything is asked ever more slowly, but never stops the client: it is asked
/// once in 64 s, or in the longest pause if that is shorter.
#[tokio::test(start_paused = true)]
async fn refusals_slow_a_client_down_to_one_request_in_64_seconds() {
    for longest in [20 * SECOND, 10_000_000 * SECOND] {
        let log = Log::default();
        let layer = throttle(Quota::per_second(10).with_burst(1));
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
    let layer = throttle(Quota::per_second(100).with_burst(1));
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
