//! Hosts that do not answer.

use std::fmt;

use crate::*;

/// Returns when each of ten requests at once has failed, and its error, if a connection takes so long
/// to fail.
async fn failures(
    layer: &ThrottleLayer,
    connect: Duration,
) -> Vec<(Duration, ThrottleError<io::Error>)> {
    let down = layer.layer(service_fn(move |_: Request<Body>| async move {
        sleep(connect).await;
        Err::<Response<Body>, _>(io::Error::other("connection refused"))
    }));
    let (start, mut tasks) = (Instant::now(), JoinSet::new());
    for _ in 0..10 {
        let down = down.clone();
        tasks.spawn(async move {
            let error = down.oneshot(request_to("a.example")).await.unwrap_err();
            (start.elapsed(), error)
        });
    }
    tasks.join_all().await
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_down_fails_requests_about_as_fast_as_without_the_layer() {
    for (connect, latest) in
        [(Duration::from_millis(5), Duration::from_millis(20)), (10 * SECOND, 13 * SECOND)]
    {
        let failures = failures(&unlimited(), connect).await;
        let mut times: Vec<_> = failures.iter().map(|(at, _)| *at).collect();
        times.sort_unstable();
        println!("{times:?}");
        assert!(times.iter().all(|at| *at <= latest), "{times:?}");
        assert!(failures.iter().all(|(_, error)| matches!(error, ThrottleError::Inner(_))));
    }
}

/// The first request fails, and the second one would have to wait too long for a permit.
#[tokio::test(start_paused = true)]
async fn a_request_that_gives_up_has_the_last_error_as_its_source() {
    let down = service_fn(|_: Request<Body>| async {
        let refused = io::Error::other("connection refused");
        Err::<Response<Body>, BoxError>(Connect(refused).into())
    });
    let layer = throttle(Quota::per_minute(1)).within(SECOND);
    let down = layer.layer(down);
    let error = down.clone().oneshot(request_to("a.example")).await.unwrap_err();
    assert!(matches!(error, ThrottleError::Inner(_)), "{error:?}");
    let error = down.clone().oneshot(request_to("a.example")).await.unwrap_err();
    let ThrottleError::NotSent(error) = error else { panic!("{error:?}") };
    assert!(matches!(error, NotSent::WaitTooLong { retry_after: Some(_), .. }), "{error:?}");
    assert_eq!(error.source().unwrap().to_string(), "can't connect");
}

#[derive(Debug)]
struct Connect(io::Error);

impl fmt::Display for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("can't connect")
    }
}

impl StdError for Connect {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}
