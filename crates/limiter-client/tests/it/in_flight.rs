//! Requests in flight to a host.

use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::{BodyExt, Full};

use crate::*;

fn layer(rate: u64) -> ThrottleLayer {
    throttle(Quota::per_second(rate).with_burst(1))
}

/// Forty requests to each of two hosts: at most five at once, each for a second, and ten a second.
#[tokio::test(start_paused = true)]
async fn at_most_so_many_run_at_once_until_their_bodies_end() {
    let layer = layer(10).within(Duration::MAX).in_flight(5).unwrap();
    let (start, mut tasks) = (Instant::now(), JoinSet::new());
    for host in ["a.example", "b.example"] {
        let running = Arc::new(AtomicUsize::new(0));
        let (counted, most) = (Arc::clone(&running), Arc::new(AtomicUsize::new(0)));
        let seen = Arc::clone(&most);
        let client = layer.layer(service_fn(move |_: Request<Body>| {
            let now = counted.fetch_add(1, Ordering::SeqCst) + 1;
            seen.fetch_max(now, Ordering::SeqCst);
            async { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("text")))) }
        }));
        for _ in 0..40 {
            let (client, running, most) = (client.clone(), Arc::clone(&running), Arc::clone(&most));
            tasks.spawn(async move {
                let response = client.oneshot(request_to(host)).await.unwrap();
                sleep(SECOND).await;
                running.fetch_sub(1, Ordering::SeqCst);
                assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "text");
                most.load(Ordering::SeqCst)
            });
        }
    }
    let most = tasks.join_all().await;
    assert_eq!(most.iter().max(), Some(&5));
    // Five a second, because each runs for a second.
    let seconds = start.elapsed().as_secs_f64();
    assert!((8.0..9.0).contains(&seconds), "{seconds}");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_dropped_or_a_request_that_fails_makes_room() {
    let layer = layer(100).within(SECOND).in_flight(1).unwrap();
    let client = layer.layer(service_fn(|request: Request<Body>| async move {
        match request.uri().host() {
            Some("fails.example") => Err("it fails"),
            _ => Ok(Response::new(Full::new(Bytes::from("text")))),
        }
    }));
    let get = |host| client.clone().oneshot(request_to(host));
    let held = get("a.example").await.unwrap();
    let error = get("a.example").await.unwrap_err();
    let ThrottleError::NotSent(NotSent::WaitTooLong { waited, .. }) = error else {
        panic!("{error:?}");
    };
    assert_eq!(waited.as_secs(), 1);
    assert!(get("b.example").await.is_ok());
    drop(held);
    assert!(get("a.example").await.is_ok());
    for _ in 0..3 {
        let failed = get("fails.example").await;
        assert!(matches!(failed, Err(ThrottleError::Inner("it fails"))), "{failed:?}");
    }
}

/// A body of text, which has not ended yet.
fn text() -> Response<Full<Bytes>> {
    Response::new(Full::new(Bytes::from("text")))
}

#[tokio::test(start_paused = true)]
async fn a_body_that_has_ended_makes_room_while_it_is_kept() {
    let layer = layer(100).within(SECOND).in_flight(1).unwrap();
    let client = layer.layer(service_fn(|request: Request<Body>| async move {
        let is_empty = request.uri().host() == Some("empty.example");
        Ok::<_, Infallible>(if is_empty { Response::new(Full::default()) } else { text() })
    }));
    let get = |host| client.clone().oneshot(request_to(host));
    let kept = get("empty.example").await.unwrap();
    assert!(get("empty.example").await.is_ok());
    drop(kept);
    // Its only frame is known to be the last one.
    let mut kept = get("a.example").await.unwrap();
    kept.frame().await.unwrap().unwrap();
    assert!(get("a.example").await.is_ok());
    drop(kept);
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_place_is_reported() {
    let waits = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&waits);
    let layer = layer(100).within(20 * SECOND).observe(move |event| match event.kind {
        EventKind::Sent { waited } | EventKind::NotSent { waited, .. } => {
            seen.lock().unwrap().push(waited.as_secs());
        }
        _ => {}
    });
    let client =
        layer.in_flight(1).unwrap().layer(service_fn(|_| async { Ok::<_, Infallible>(text()) }));
    let held = client.clone().oneshot(request_to("a.example")).await.unwrap();
    assert!(client.clone().oneshot(request_to("a.example")).await.is_err());
    let second = tokio::spawn(client.clone().oneshot(request_to("a.example")));
    sleep(10 * SECOND).await;
    drop(held);
    second.await.unwrap().unwrap();
    assert_eq!(*waits.lock().unwrap(), [0, 20, 10]);
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_for_a_place_are_in_the_queue() {
    let layer = unlimited().queue(10).in_flight(1).unwrap();
    let client = layer.layer(service_fn(|_| async { Ok::<_, Infallible>(text()) }));
    let _held = client.clone().oneshot(request_to("a.example")).await.unwrap();
    let mut tasks = JoinSet::new();
    for _ in 0..1_000 {
        tasks.spawn(client.clone().oneshot(request_to("a.example")));
    }
    // Each task runs as far as it can.
    sleep(SECOND).await;
    let mut full = 0;
    while let Some(done) = tasks.try_join_next() {
        let result = done.unwrap().map(drop);
        assert!(matches!(result, Err(ThrottleError::NotSent(NotSent::QueueFull))), "{result:?}");
        full += 1;
    }
    assert_eq!(full, 990);
}

#[tokio::test(start_paused = true)]
async fn the_requests_to_a_slow_host_take_no_place_of_another() {
    let layer = unlimited().queue(100_000).in_flight(1).unwrap();
    let client = layer.layer(service_fn(|request: Request<Body>| async move {
        if request.uri().host() == Some("slow.example") {
            pending::<()>().await;
        }
        Ok::<_, Infallible>(text())
    }));
    let mut tasks = JoinSet::new();
    for _ in 0..10_001 {
        tasks.spawn(client.clone().oneshot(request_to("slow.example")));
    }
    // Each task runs as far as it can.
    sleep(SECOND).await;
    let held = client.clone().oneshot(request_to("b.example")).await.unwrap();
    let second = tokio::spawn(client.clone().oneshot(request_to("b.example")));
    // Each task runs as far as it can.
    sleep(SECOND).await;
    drop(held);
    second.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_request_to_a_paused_host_fails_at_once_if_its_places_are_taken() {
    let client = layer(100).in_flight(1).unwrap().layer(service_fn(|_| async {
        let mut refused = text();
        *refused.status_mut() = http::StatusCode::TOO_MANY_REQUESTS;
        refused.headers_mut().insert("retry-after", HeaderValue::from_static("3600"));
        Ok::<_, Infallible>(refused)
    }));
    let _held = client.clone().oneshot(request_to("a.example")).await.unwrap();
    let start = Instant::now();
    let error = client.clone().oneshot(request_to("a.example")).await.unwrap_err();
    let ThrottleError::NotSent(NotSent::WaitTooLong { retry_after, .. }) = error else {
        panic!("{error:?}");
    };
    assert_eq!((start.elapsed(), retry_after), (Duration::ZERO, Some(3_600 * SECOND)));
}

#[test]
fn a_limit_of_none_is_an_error() {
    assert!(layer(1).in_flight(0).is_err());
}
