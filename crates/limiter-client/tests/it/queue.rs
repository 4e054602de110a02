//! The queue of the requests to a host.

use crate::*;

#[tokio::test(start_paused = true)]
async fn until_the_first_response_requests_go_at_the_pace_without_its_burst() {
    let log = Log::default();
    let layer = throttle(Quota::per_second(250).with_burst(50));
    let client = client(&layer, &log, |_| response(200, &[]));
    let tasks: Vec<_> = (0..10).map(|_| spawn(&client)).collect();
    let start = Instant::now();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap(), 200);
    }
    // The response arrives after 10 ms, and the others are sent at once.
    let millis: Vec<_> = log.since(start).iter().map(Duration::as_millis).collect();
    assert_eq!(millis, [0, 4, 8, 10, 10, 10, 10, 10, 10, 10]);
}

#[tokio::test(start_paused = true)]
async fn after_a_first_request_without_a_response_the_next_is_the_first() {
    let log = Log::default();
    let client = client(&unlimited(), &log, |_| response(200, &[]));
    let gone = spawn(&client);
    settle().await;
    gone.abort();
    let start = Instant::now();
    send_all(&client, "a.example", 3).await;
    assert!(start.elapsed() < SECOND);
}

#[tokio::test(start_paused = true)]
async fn requests_are_sent_in_the_order_in_which_they_arrived() {
    let layer = throttle(Quota::per_second(10).with_burst(1));
    let order = Arc::new(Mutex::new(Vec::new()));
    let seen = order.clone();
    let client = layer.layer(service_fn(move |request: Request<Body>| {
        seen.lock().unwrap().push(request.uri().path().to_owned());
        async { Ok::<_, Infallible>(Response::new(Body::default())) }
    }));
    let mut tasks = Vec::new();
    for index in 0..5 {
        let request = Request::get(format!("http://a.example/{index}")).body(Body::default());
        tasks.push(tokio::spawn(client.clone().oneshot(request.unwrap())));
        settle().await;
    }
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(*order.lock().unwrap(), ["/0", "/1", "/2", "/3", "/4"]);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_is_an_error() {
    let layer = throttle(Quota::per_minute(1)).queue(2);
    let log = Log::default();
    let client = client(&layer.within(600 * SECOND), &log, |_| response(200, &[]));
    let first: Vec<_> = (0..4).map(|_| spawn(&client)).collect();
    // The first one is sent at once, two wait.
    let mut results = Vec::new();
    for task in first {
        results.push(task.await.unwrap());
    }
    let full =
        |result: &&Result<_, _>| matches!(result, Err(ThrottleError::NotSent(NotSent::QueueFull)));
    assert_eq!(results.iter().filter(full).count(), 1, "{results:?}");
    let error = results.into_iter().find_map(Result::err).unwrap();
    assert!(error.to_string().contains("the queue of its host is full"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_queue_has_at_least_one_place() {
    let log = Log::default();
    let client = client(&unlimited().queue(0), &log, |_| response(200, &[]));
    assert_eq!(get(&client, "a.example").await.unwrap(), 200);
}

/// A request that is dropped while it waits gives its permit back, and its place.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_gives_its_permit_back() {
    let own = limiter(Quota::per_minute(6).with_burst(1));
    let layer = ThrottleLayer::with_limiter(own.clone()).unwrap().queue(1);
    let log = Log::default();
    let client = client(&layer, &log, |_| response(200, &[]));
    assert_eq!(get(&client, "a.example").await.unwrap(), 200);
    for _ in 0..20 {
        let waiting = spawn(&client);
        settle().await;
        waiting.abort();
        settle().await;
    }
    let start = Instant::now();
    assert_eq!(get(&client, "a.example").await.unwrap(), 200);
    assert!(start.elapsed() <= 11 * SECOND, "{:?}", start.elapsed());
}

/// A connection of the inner service is free while requests wait for permits.
#[tokio::test(start_paused = true)]
async fn a_request_that_waits_holds_no_ready_service() {
    let pool = ConcurrencyLimitLayer::new(1).layer(service_fn(ok));
    let layer = throttle(Quota::per_minute(1));
    let client = layer.layer(pool.clone());
    assert!(get(&client, "a.example").await.is_ok());
    let waiting = spawn(&client);
    settle().await;
    let mut other = pool;
    other.ready().await.unwrap().call(request_to("b.example")).await.unwrap();
    waiting.abort();
}

/// The wait for the inner service counts, so it can't keep the first request's turn for ever.
#[tokio::test(start_paused = true)]
async fn a_service_that_is_never_ready_ends_the_wait() {
    let pool = ConcurrencyLimitLayer::new(1).layer(service_fn(ok));
    let client = unlimited().within(SECOND).layer(pool.clone());
    let mut other = pool;
    other.ready().await.unwrap();
    let start = Instant::now();
    let error = timeout(60 * SECOND, get(&client, "a.example")).await.unwrap().unwrap_err();
    let ThrottleError::NotSent(NotSent::WaitTooLong { waited, .. }) = error else {
        panic!("{error:?}")
    };
    assert_eq!((waited, start.elapsed() >= SECOND), (SECOND, true));
    assert!(error.to_string().contains("it has waited for 1s"), "{error}");
    drop(other);
    assert_eq!(get(&client, "a.example").await.unwrap(), 200);
}

/// No permits are taken ahead while the inner service is not ready, to be used all at once then.
#[tokio::test(start_paused = true)]
async fn the_pace_is_kept_after_the_inner_service_was_not_ready() {
    let log = Log::default();
    let sent = log.clone();
    let pool = ConcurrencyLimitLayer::new(1).layer(service_fn(move |_: Request<Body>| {
        sent.add(200);
        async { Ok::<_, Infallible>(Response::new(Body::default())) }
    }));
    let layer = throttle(Quota::per_second(10).with_burst(1));
    let client = layer.layer(pool.clone());
    assert_eq!(get(&client, "a.example").await.unwrap(), 200);
    let mut other = pool;
    other.ready().await.unwrap();
    let start = Instant::now();
    let (_, ()) = tokio::join!(send_all(&client, "a.example", 30), async {
        sleep(10 * SECOND).await;
        drop(other);
    });
    let sent = log.since(start);
    let fastest = sent.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap();
    assert!(fastest >= Duration::from_millis(99), "{sent:?}");
}

#[tokio::test(start_paused = true)]
async fn requests_without_a_host_of_the_closure_are_sent_at_once() {
    let layer = throttle(Quota::per_minute(1))
        .host(|head| head.headers.get("x-account")?.to_str().map(str::to_owned).ok());
    let log = Log::default();
    let client = client(&layer, &log, |_| response(200, &[]));
    let start = Instant::now();
    send_all(&client, "a.example", 10).await;
    for account in ["a", "b", "c"] {
        let mut request = request_to("a.example");
        request.headers_mut().insert("x-account", account.parse().unwrap());
        client.clone().oneshot(request).await.unwrap();
    }
    assert!(start.elapsed() < SECOND);
}

#[test]
fn a_policy_that_has_no_pace_is_refused_and_quoted() {
    for policy in [
        Policy::sliding_log("hourly", Quota::per_hour(10)),
        Policy::all_of(
            "hourly",
            [Policy::gcra("a", Quota::per_second(10)), Policy::gcra("b", Quota::per_hour(1_000))],
        )
        .unwrap(),
    ] {
        let limiter = MemoryLimiter::new(policy);
        let error = ThrottleLayer::with_limiter(limiter).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSetting);
        assert!(error.to_string().contains("\"hourly\""), "{error}");
        assert!(error.to_string().contains("use one limit by gcra"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_limiter_s_own_policy_is_the_fastest_pace() {
    let layer = throttle(Quota::per_second(10).with_burst(1));
    let log = Log::default();
    let fields = [("ratelimit-policy", r#""api";q=1000;w=1"#)];
    let client = client(&layer, &log, move |_| response(200, &fields));
    let start = Instant::now();
    send_all(&client, "a.example", 51).await;
    let seconds = start.elapsed().as_secs_f64();
    // The last of 50 intervals, and a round trip.
    assert!((5.0..5.05).contains(&seconds), "{seconds}");
}

/// A time-out inside of the layer changes the inner error's type to a box.
#[tokio::test(start_paused = true)]
async fn an_error_of_the_inner_service_is_kept() {
    let inner = service_fn(|_: Request<Body>| pending::<Result<Response<Body>, Infallible>>());
    let client = ServiceBuilder::new().layer(unlimited()).timeout(SECOND).service(inner);
    let error =
        tokio::spawn(
            async move { client.clone().oneshot(request_to("a.example")).await.unwrap_err() },
        );
    let ThrottleError::Inner(error) = error.await.unwrap() else { panic!("another error") };
    assert!(error.is::<tower::timeout::error::Elapsed>(), "{error}");
}
