//! The time after a reset, and requests whose responses take long.

use crate::*;

const FAST: Duration = Duration::from_millis(10);
const NEVER: Duration = Duration::from_secs(1_000_000);

fn announces(remaining: u64, reset: u64) -> Response<Body> {
    let state = format!(r#""api";r={remaining};t={reset}"#);
    response(200, &[("ratelimit-policy", r#""api";q=5000;w=3600"#), ("ratelimit", &state)])
}

/// Starts so many requests at once, and returns after what time all have returned.
async fn time_for<S: Server>(client: &Throttle<S>, count: usize) -> Duration {
    let start = Instant::now();
    let tasks: Vec<_> = (0..count).map(|_| spawn(client)).collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    start.elapsed()
}

fn patient() -> ThrottleLayer {
    unlimited().within(10_000 * SECOND)
}

/// An upload counted against the one request that may be in flight after a reset, until its end.
#[tokio::test(start_paused = true)]
async fn an_upload_from_before_the_reset_holds_no_request_after_it() {
    let log = Log::default();
    let client = slow_client(&patient(), &log, |index| match index {
        0 => (FAST, announces(4_000, 2)),
        1 => (25 * SECOND, announces(3_999, 2)),
        _ => (FAST, announces(4_990, 3_600)),
    });
    get(&client, "a.example").await.unwrap();
    drop(spawn(&client));
    sleep(3 * SECOND).await;
    let took = time_for(&client, 50).await;
    assert!(took < SECOND, "{took:?}");
}

/// As of a server whose permits recover one by one, so that a whole quota can't be assumed.
#[tokio::test(start_paused = true)]
async fn a_response_to_a_request_from_before_the_reset_says_nothing_of_what_remains_after() {
    for late in [response(200, &[]), announces(3_999, 2_000)] {
        let log = Log::default();
        let client = slow_client(&patient(), &log, move |index| match index {
            0 => (FAST, announces(4_000, 2)),
            // It returns while the first request after the reset is in flight.
            1 => (Duration::from_millis(3_500), late.clone()),
            2 => (SECOND, announces(1, 100)),
            _ => (FAST, announces(0, 100)),
        });
        let start = Instant::now();
        get(&client, "a.example").await.unwrap();
        drop(spawn(&client));
        sleep(3 * SECOND).await;
        (0..20).for_each(|_| drop(spawn(&client)));
        sleep(20 * SECOND).await;
        let sent = log.since(start);
        // Two before the reset, one after it, and the one that remains by its response.
        assert_eq!(sent.len(), 4, "{sent:?}");
        assert!(sent[3] >= 4 * SECOND, "{sent:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_reset_the_next_request_follows_one_without_a_response_after_two_seconds() {
    let log = Log::default();
    let client = slow_client(&patient(), &log, |index| match index {
        0 => (FAST, announces(4_000, 2)),
        1 | 2 => (NEVER, response(200, &[])),
        _ => (FAST, announces(4_990, 3_600)),
    });
    get(&client, "a.example").await.unwrap();
    sleep(3 * SECOND).await;
    let start = Instant::now();
    drop(spawn(&client));
    drop(spawn(&client));
    sleep(FAST).await;
    let took = timeout(60 * SECOND, time_for(&client, 50)).await.unwrap();
    let sent = log.since(start);
    assert!(took < 5 * SECOND, "{took:?}");
    assert!(sent[1] <= FAST && sent[2] >= 2 * SECOND && sent[3] >= 4 * SECOND, "{sent:?}");
}

#[tokio::test(start_paused = true)]
async fn one_response_that_never_arrives_holds_what_remains_until_the_reset_at_most() {
    let log = Log::default();
    let client = slow_client(&patient(), &log, |index| match index {
        0 => (FAST, announces(1, 100)),
        1 => (NEVER, response(200, &[])),
        _ => (FAST, announces(4_990, 3_600)),
    });
    get(&client, "a.example").await.unwrap();
    drop(spawn(&client));
    sleep(FAST).await;
    let took = timeout(1_000 * SECOND, time_for(&client, 50)).await.unwrap();
    assert!(took > 99 * SECOND && took < 101 * SECOND, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_request_after_a_reset_is_followed_by_the_next_one_alone() {
    let log = Log::default();
    let client = slow_client(&patient(), &log, |index| match index {
        0 => (FAST, announces(4_000, 2)),
        _ => (SECOND, announces(1, 100)),
    });
    get(&client, "a.example").await.unwrap();
    sleep(3 * SECOND).await;
    let start = Instant::now();
    let dropped = timeout(SECOND / 2, get(&client, "a.example")).await;
    assert!(dropped.is_err(), "{dropped:?}");
    (0..20).for_each(|_| drop(spawn(&client)));
    sleep(SECOND / 2).await;
    assert_eq!(log.since(start).len(), 3, "{:?}", log.since(start));
}

/// As with a first request that fails.
#[tokio::test(start_paused = true)]
async fn a_host_that_is_down_after_a_reset_fails_requests_about_as_fast_as_without_the_layer() {
    let log = Log::default();
    let client = patient().layer(service_fn(move |_: Request<Body>| {
        let index = log.since(Instant::now()).len();
        log.add(200);
        async move {
            if index == 0 {
                return Ok(announces(4_000, 2));
            }
            sleep(SECOND).await;
            Err(io::Error::other("connection refused"))
        }
    }));
    client.clone().oneshot(request_to("a.example")).await.unwrap();
    sleep(3 * SECOND).await;
    let (start, mut tasks) = (Instant::now(), JoinSet::new());
    for _ in 0..10 {
        let client = client.clone();
        tasks.spawn(async move { client.oneshot(request_to("a.example")).await.is_err() });
    }
    assert!(tasks.join_all().await.into_iter().all(|is_error| is_error));
    assert!(start.elapsed() <= 3 * SECOND, "{:?}", start.elapsed());
}
