//! The fields that servers of the public send, a row each, with the time for which they ask.

use std::collections::BTreeSet;

use http::StatusCode;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};

use crate::*;

/// The moment that dates and Unix times in the rows count from.
const DATE: &str = "Sat, 31 Jan 2026 12:00:00 GMT";

/// A response, and for how long no request may be sent after it.
struct Row {
    whose: &'static str,
    status: u16,
    seconds: f64,
    fields: Vec<(&'static str, &'static str)>,
}

/// The first line of each has what the response shows, its status, and the seconds until the next request. Without a reset,
/// these are the window, or the longest pause.
const ROWS: &str = r#"
a fraction of none | 429 | 2
retry-after: 2.0

a fraction | 429 | 300
retry-after: 299.997

a fraction of 503 | 503 | 31
retry-after: 30.5

Unix time | 429 | 60
retry-after: 1769860860

a date | 429 | 60
retry-after: Sat, 31 Jan 2026 12:01:00 GMT

Azure | 429 | 1.5
retry-after-ms: 1500
retry-after: 2

nothing readable | 429 | 1

nothing readable of 503 | 503 | 1
retry-after: soon

OpenAI, requests | 429 | 360
x-ratelimit-limit-requests: 60
x-ratelimit-remaining-requests: 0
x-ratelimit-reset-requests: 6m0s
x-ratelimit-limit-tokens: 150000
x-ratelimit-remaining-tokens: 149984
x-ratelimit-reset-tokens: 120ms

OpenAI, tokens | 200 | 360
x-ratelimit-limit-requests: 60
x-ratelimit-remaining-requests: 59
x-ratelimit-reset-requests: 1s
x-ratelimit-limit-tokens: 150000
x-ratelimit-remaining-tokens: 0
x-ratelimit-reset-tokens: 6m0s

OpenAI, milliseconds | 429 | 0.12
x-ratelimit-limit-requests: 500
x-ratelimit-remaining-requests: 0
x-ratelimit-reset-requests: 120ms

Anthropic, requests | 429 | 60
anthropic-ratelimit-requests-limit: 50
anthropic-ratelimit-requests-remaining: 0
anthropic-ratelimit-requests-reset: 2026-01-31T12:01:00Z
anthropic-ratelimit-tokens-limit: 40000
anthropic-ratelimit-tokens-remaining: 39000
anthropic-ratelimit-tokens-reset: 2026-01-31T12:00:02Z
retry-after: 58

Anthropic, output tokens | 200 | 30
anthropic-ratelimit-requests-limit: 50
anthropic-ratelimit-requests-remaining: 49
anthropic-ratelimit-requests-reset: 2026-01-31T12:00:02Z
anthropic-ratelimit-output-tokens-limit: 8000
anthropic-ratelimit-output-tokens-remaining: 0
anthropic-ratelimit-output-tokens-reset: 2026-01-31T12:00:30Z

Okta | 429 | 60
x-rate-limit-limit: 600
x-rate-limit-remaining: 0
x-rate-limit-reset: 1769860860

X | 429 | 900
x-rate-limit-limit: 75
x-rate-limit-remaining: 0
x-rate-limit-reset: 1769861700

Discord, a bucket | 200 | 65
x-ratelimit-limit: 5
x-ratelimit-remaining: 0
x-ratelimit-reset: 1769860864.57
x-ratelimit-reset-after: 64.57
x-ratelimit-bucket: abcd1234

Discord, a refusal | 429 | 65
retry-after: 64.57
via: 1.1 google

Mastodon | 200 | 301
x-ratelimit-limit: 300
x-ratelimit-remaining: 0
x-ratelimit-reset: 2026-01-31T12:05:00.123456Z

Docker | 429 | 7200
ratelimit-limit: 100;w=21600
ratelimit-remaining: 0;w=21600

Shopify, a full bucket | 200 | 1
x-shopify-shop-api-call-limit: 40/40

Shopify, the last place | 200 | 0
x-shopify-shop-api-call-limit: 39/40

Shopify, a refusal | 429 | 2
x-shopify-shop-api-call-limit: 40/40
retry-after: 2.0

GitHub, the hour | 403 | 900
x-ratelimit-limit: 5000
x-ratelimit-remaining: 0
x-ratelimit-reset: 1769861700
x-ratelimit-resource: core

GitHub, a secondary limit with a time | 403 | 90
x-ratelimit-limit: 5000
x-ratelimit-remaining: 4321
x-ratelimit-reset: 1769861700
retry-after: 90

GitHub, a secondary limit without a time | 429 | 60
x-ratelimit-limit: 5000
x-ratelimit-remaining: 4321
x-ratelimit-reset: 1769861700

GitHub, a secondary limit by its name | 403 | 60
gh-limited-by: search
x-ratelimit-limit: 30
x-ratelimit-remaining: 14
x-ratelimit-reset: 1769860850

GitHub, a lack of rights | 403 | 0
x-ratelimit-limit: 5000
x-ratelimit-remaining: 4321
x-ratelimit-reset: 1769861700

GitLab | 429 | 45
ratelimit-limit: 60
ratelimit-remaining: 0
ratelimit-reset: 1769860845
ratelimit-resettime: Sat, 31 Jan 2026 12:00:45 GMT
retry-after: 45

Envoy | 429 | 60
x-ratelimit-limit: 10, 10;w=60;name="default"
x-ratelimit-remaining: 0
x-ratelimit-reset: 59.9
"#;

fn rows() -> impl Iterator<Item = Row> {
    ROWS.trim().split("\n\n").map(|row| {
        let mut lines = row.lines();
        let head: Vec<_> = lines.next().unwrap().split(" | ").collect();
        let [whose, status, seconds] = head[..] else { panic!("{head:?}") };
        let fields = lines.map(|line| line.split_once(": ").unwrap()).collect();
        Row { whose, status: status.parse().unwrap(), seconds: seconds.parse().unwrap(), fields }
    })
}

fn answer(row: &Row) -> Response<Body> {
    let fields: Vec<_> = row.fields.iter().copied().chain([("date", DATE)]).collect();
    response(row.status, &fields)
}

/// The second request is sent when the first one's response says so.
#[tokio::test(start_paused = true)]
async fn each_field_set_is_followed() {
    for row in rows() {
        let layer = throttle(Quota::per_second(100)).within(Duration::MAX);
        let sent = second_after(&layer, answer(&row)).await.as_secs_f64();
        let is_due = (row.seconds..row.seconds + 0.05).contains(&sent);
        assert!(is_due, "{}: {sent}, expected {}", row.whose, row.seconds);
    }
}

/// Five minutes or more of four clients, of a server that answers like this from time to time.
#[tokio::test(start_paused = true)]
async fn no_request_is_sent_before_the_time_that_was_announced() {
    for row in rows() {
        let open_at = Arc::new(Mutex::new((Instant::now(), 0)));
        let early = Arc::new(Mutex::new(Vec::new()));
        let (open, seen) = (Arc::clone(&open_at), Arc::clone(&early));
        let (closed, seconds) = (answer(&row), row.seconds);
        let server = service_fn(move |_: Request<Body>| {
            let (now, mut open) = (Instant::now(), open.lock().unwrap());
            open.1 += 1;
            if now < open.0 {
                seen.lock().unwrap().push(open.0 - now);
            }
            let is_closed = open.1 % 50 == 0;
            if is_closed {
                open.0 = now + Duration::from_secs_f64(seconds);
            }
            let response = if is_closed { closed.clone() } else { response(200, &[]) };
            async move { Ok::<_, BoxError>(response) }
        });
        let layer = throttle(Quota::per_second(10));
        let client = layer.within(Duration::MAX).layer(server);
        let end = Instant::now() + Duration::from_secs_f64(300.0 + 3.0 * row.seconds);
        let mut tasks = JoinSet::new();
        for _ in 0..4 {
            let client = client.clone();
            tasks.spawn(async move {
                while Instant::now() < end {
                    client.clone().oneshot(request_to("a.example")).await.unwrap();
                    sleep(Duration::from_millis(250)).await;
                }
            });
        }
        tasks.join_all().await;
        let sent = open_at.lock().unwrap().1;
        println!("{}: {sent} requests", row.whose);
        assert!(sent > 100, "{}: {sent}", row.whose);
        assert!(early.lock().unwrap().is_empty(), "{}: {:?}", row.whose, early.lock().unwrap());
    }
}

/// Starts a server whose path is the number of a row.
async fn serve() -> String {
    let app = Router::new().fallback(|uri: Uri| async move {
        let row = uri.path().trim_matches('/').parse().ok().and_then(|row| rows().nth(row));
        row.map_or_else(|| response(404, &[]), |row| answer(&row)).map(|_| String::new())
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    format!("http://{address}")
}

/// Over a socket, so that the fields are those that the client library has read.
async fn read_through<S>(inner: S)
where
    S: Service<Request<Body>, Response = Response<()>, Error = BoxError, Future: Send>
        + Clone
        + Send
        + 'static,
{
    let server = serve().await;
    for (index, row) in rows().enumerate() {
        let layer = layer(Policy::gcra("outgoing", Quota::per_second(1_000)));
        let client = layer.within(Duration::ZERO).layer(inner.clone());
        let get = || {
            let request = Request::get(format!("{server}/{index}")).body(Body::default()).unwrap();
            client.clone().oneshot(request)
        };
        assert_eq!(get().await.unwrap().status(), StatusCode::from_u16(row.status).unwrap());
        let wait = match get().await {
            Err(ThrottleError::NotSent(NotSent::WaitTooLong { retry_after, .. })) => {
                retry_after.unwrap().as_secs_f64()
            }
            other => {
                assert!(row.seconds < 0.5, "{}: {other:?}", row.whose);
                continue;
            }
        };
        assert!(wait <= row.seconds && wait > row.seconds - 30.0, "{}: {wait}", row.whose);
    }
}

#[tokio::test]
async fn each_field_set_is_read_through_hyper() {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let client = client.map_response(|response: Response<_>| response.map(drop));
    read_through(client.map_err(BoxError::from)).await;
}

#[tokio::test]
async fn each_field_set_is_read_through_reqwest() {
    let client = reqwest::Client::new();
    read_through(service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            let response = client.execute(request.map(|_| "").try_into()?).await?;
            Ok(Response::from(response).map(drop))
        }
    }))
    .await;
}

#[test]
fn each_row_has_its_own_name() {
    let names: BTreeSet<_> = rows().map(|row| row.whose).collect();
    assert_eq!(names.len(), rows().count());
}
