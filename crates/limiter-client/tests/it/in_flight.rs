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

#[test]
fn a_limit_of_none_is_an_error() {
    assert!(layer(1).in_flight(0).is_err());
}
