//! A server on the loopback device that answers as GitHub documents: `X-RateLimit-*` with each response,
//! 403 once nothing remains, and 403 with `Retry-After` for its secondary limits.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::{Router, body::Body};
use http::{Request, Response, StatusCode};
use hyper_util::{
    client::legacy::{Client, Error, connect::HttpConnector},
    rt::TokioExecutor,
};
use limiter_client::{NotSent, Throttle, ThrottleError, ThrottleLayer};
use limiter_core::{Policy, Quota};
use tokio::{net::TcpListener, task::JoinSet};
use tower::{Layer, ServiceExt, service_fn};

/// What GitHub counts for one user.
struct GitHub {
    limit: u64,
    /// In seconds.
    window: u64,
    used: Mutex<Used>,
}

#[derive(Default)]
struct Used {
    reset: u64,
    used: u64,
    admitted: usize,
    refused: Vec<SystemTime>,
    /// The answer to one request: a secondary limit.
    secondary: Option<Secondary>,
}

#[derive(Clone, Copy)]
enum Secondary {
    RetryAfter(u64),
    /// 429 with neither a time nor a remainder of zero.
    WithoutTime,
    /// Not a limit: the user may not see this.
    Forbidden,
}

impl GitHub {
    async fn start(limit: u64, window: u64) -> (Arc<Self>, String) {
        let github = Arc::new(Self { limit, window, used: Mutex::default() });
        let shared = Arc::clone(&github);
        let app = Router::new().fallback_service(service_fn(move |request: Request<Body>| {
            let response = shared.answer(request.uri().path() == "/cached");
            async { Ok::<_, std::convert::Infallible>(response) }
        }));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        (github, url)
    }

    /// A conditional request whose resource has not changed is not counted.
    fn answer(&self, is_cached: bool) -> Response<Body> {
        let mut used = self.used.lock().unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        if now >= used.reset {
            (used.reset, used.used) = (now + self.window, 0);
        }
        let mut response = Response::builder();
        let refused = used.used == self.limit || used.secondary.is_some();
        if is_cached {
            response = response.status(StatusCode::NOT_MODIFIED);
        } else if used.used < self.limit {
            used.used += 1;
        }
        response = match used.secondary.take() {
            Some(Secondary::RetryAfter(seconds)) => {
                response.status(StatusCode::FORBIDDEN).header("retry-after", seconds)
            }
            Some(Secondary::WithoutTime) => response.status(StatusCode::TOO_MANY_REQUESTS),
            Some(Secondary::Forbidden) => response.status(StatusCode::FORBIDDEN),
            None if refused => response.status(StatusCode::FORBIDDEN),
            None => response,
        };
        if refused {
            used.refused.push(SystemTime::now());
        } else {
            used.admitted += 1;
        }
        response
            .header("x-ratelimit-limit", self.limit)
            .header("x-ratelimit-remaining", self.limit - used.used)
            .header("x-ratelimit-used", used.used)
            .header("x-ratelimit-reset", used.reset)
            .header("x-ratelimit-resource", "core")
            .body(Body::empty())
            .unwrap()
    }

    fn answer_next(&self, secondary: Secondary) {
        self.used.lock().unwrap().secondary = Some(secondary);
    }

    /// Returns how many requests were admitted, and how many refused.
    fn counts(&self) -> (usize, usize) {
        let used = self.used.lock().unwrap();
        (used.admitted, used.refused.len())
    }
}

type Http = Throttle<Client<HttpConnector, Body>>;

fn client(layer: &ThrottleLayer) -> Http {
    layer.layer(Client::builder(TokioExecutor::new()).build_http())
}

type Answer = Result<u16, ThrottleError<Error>>;

async fn get(client: &Http, url: &str) -> Answer {
    let request = Request::get(url).body(Body::empty()).unwrap();
    Ok(client.clone().oneshot(request).await?.status().as_u16())
}

async fn send_all(client: &Http, url: &str, count: usize) -> Vec<Answer> {
    let mut tasks = JoinSet::new();
    for _ in 0..count {
        let (client, url) = (client.clone(), url.to_owned());
        tasks.spawn(async move { get(&client, &url).await });
    }
    tasks.join_all().await
}

/// At most 1,000/s, which is faster than GitHub's secondary limits allow.
fn fast() -> ThrottleLayer {
    let policy = Policy::gcra("github", Quota::per_second(1_000).with_burst(100));
    ThrottleLayer::new(policy).unwrap()
}

fn assert_waits(result: Answer, seconds: std::ops::RangeInclusive<u64>) {
    match result {
        Err(ThrottleError::NotSent(NotSent::WaitTooLong { retry_after: Some(wait), .. })) => {
            assert!(seconds.contains(&wait.as_secs()), "{wait:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn sixty_an_hour_are_spent_at_once_and_then_none_until_the_reset() {
    let (github, url) = GitHub::start(60, 3_600).await;
    let client = client(&fast().within(Duration::from_secs(5)));
    let results = send_all(&client, &url, 60).await;
    let ok = results.iter().filter(|result| matches!(result, Ok(200))).count();
    assert_eq!(ok, 60, "{ok} were sent: {:?}", results.iter().find(|it| it.is_err()));
    assert_waits(get(&client, &url).await, 3_500..=3_601);
    assert_eq!(github.counts(), (60, 0));
}

#[tokio::test]
async fn what_the_server_does_not_count_is_not_counted_here() {
    let (github, url) = GitHub::start(60, 3_600).await;
    let client = client(&fast().within(Duration::from_secs(5)));
    assert_eq!(get(&client, &url).await.unwrap(), 200);
    for _ in 0..100 {
        assert_eq!(get(&client, &format!("{url}cached")).await.unwrap(), 304);
    }
    let results = send_all(&client, &url, 59).await;
    assert!(results.iter().all(|result| matches!(result, Ok(200))), "{results:?}");
    assert_eq!(github.counts(), (160, 0));
}

/// Never more than remains is in flight, so that no request is refused.
#[tokio::test]
async fn windows_follow_each_other_without_a_refusal() {
    let (github, url) = GitHub::start(20, 2).await;
    let client = client(&fast());
    let results = send_all(&client, &url, 50).await;
    assert!(results.iter().all(|result| matches!(result, Ok(200))), "{results:?}");
    assert_eq!(github.counts(), (50, 0));
}

#[tokio::test]
async fn a_403_with_nothing_remaining_is_a_refusal_until_the_reset() {
    let (github, url) = GitHub::start(5, 3_600).await;
    // Another client of the same user has taken all but one.
    let other = client(&fast());
    for _ in 0..5 {
        get(&other, &url).await.unwrap();
    }
    let client = client(&fast().within(Duration::from_secs(5)));
    assert_eq!(get(&client, &url).await.unwrap(), 403);
    for _ in 0..3 {
        assert_waits(get(&client, &url).await, 3_500..=3_601);
    }
    assert_eq!(github.counts(), (5, 1));
}

#[tokio::test]
async fn a_403_with_retry_after_is_a_refusal_until_then() {
    let (github, url) = GitHub::start(1_000_000, 3_600).await;
    let client = client(&fast().within(Duration::from_secs(5)));
    assert_eq!(get(&client, &url).await.unwrap(), 200);
    github.answer_next(Secondary::RetryAfter(77));
    assert_eq!(get(&client, &url).await.unwrap(), 403);
    for _ in 0..2 {
        assert_waits(get(&client, &url).await, 62..=77);
    }
    assert_eq!(github.counts(), (1, 1));
}

#[tokio::test]
async fn a_secondary_limit_without_a_time_is_a_pause_of_a_minute() {
    let (github, url) = GitHub::start(1_000_000, 3_600).await;
    let client = client(&fast().within(Duration::from_secs(5)));
    assert_eq!(get(&client, &url).await.unwrap(), 200);
    github.answer_next(Secondary::WithoutTime);
    assert_eq!(get(&client, &url).await.unwrap(), 429);
    assert_waits(get(&client, &url).await, 30..=60);
    assert_eq!(github.counts(), (1, 1));
}

#[tokio::test]
async fn a_403_for_want_of_rights_is_not_a_refusal() {
    let (github, url) = GitHub::start(1_000_000, 3_600).await;
    let client = client(&fast().within(Duration::from_secs(5)));
    github.answer_next(Secondary::Forbidden);
    assert_eq!(get(&client, &url).await.unwrap(), 403);
    for _ in 0..5 {
        assert_eq!(get(&client, &url).await.unwrap(), 200);
    }
    assert_eq!(github.counts(), (5, 1));
}
