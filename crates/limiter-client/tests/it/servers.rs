//! The fields that servers of the public send, a row each, with the time for which they ask.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::Router;
use http::{Request, Response, StatusCode, Uri};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use limiter_client::{NotSent, Policy, Quota, ThrottleError, ThrottleLayer};
use tokio::{
    net::TcpListener,
    task::JoinSet,
    time::{Instant, sleep},
};
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};

use crate::{Body, Fields, Log, client, get, layer, limiter, response};

/// The moment that dates and Unix times in the rows count from.
const DATE: &str = "Sat, 31 Jan 2026 12:00:00 GMT";

#[derive(Clone, Copy)]
struct Row {
    whose: &'static str,
    status: u16,
    fields: Fields<'static>,
    /// For how long no request may be sent.
    seconds: f64,
}

const fn row(whose: &'static str, status: u16, fields: Fields<'static>, seconds: f64) -> Row {
    Row { whose, status, fields, seconds }
}

const ROWS: &[Row] = &[
    row("a fraction of none", 429, &[("retry-after", "2.0")], 2.0),
    row("a fraction", 429, &[("retry-after", "299.997")], 300.0),
    row("a fraction of 503", 503, &[("retry-after", "30.5")], 31.0),
    row("Unix time", 429, &[("retry-after", "1769860860")], 60.0),
    row("a date", 429, &[("retry-after", "Sat, 31 Jan 2026 12:01:00 GMT")], 60.0),
    row("Azure", 429, &[("retry-after-ms", "1500"), ("retry-after", "2")], 1.5),
    row("nothing readable", 429, &[], 1.0),
    row("nothing readable of 503", 503, &[("retry-after", "soon")], 1.0),
    row(
        "OpenAI, requests",
        429,
        &[
            ("x-ratelimit-limit-requests", "60"),
            ("x-ratelimit-remaining-requests", "0"),
            ("x-ratelimit-reset-requests", "6m0s"),
            ("x-ratelimit-limit-tokens", "150000"),
            ("x-ratelimit-remaining-tokens", "149984"),
            ("x-ratelimit-reset-tokens", "120ms"),
        ],
        360.0,
    ),
    row(
        "OpenAI, tokens",
        200,
        &[
            ("x-ratelimit-limit-requests", "60"),
            ("x-ratelimit-remaining-requests", "59"),
            ("x-ratelimit-reset-requests", "1s"),
            ("x-ratelimit-limit-tokens", "150000"),
            ("x-ratelimit-remaining-tokens", "0"),
            ("x-ratelimit-reset-tokens", "6m0s"),
        ],
        360.0,
    ),
    row(
        "OpenAI, milliseconds",
        429,
        &[
            ("x-ratelimit-limit-requests", "500"),
            ("x-ratelimit-remaining-requests", "0"),
            ("x-ratelimit-reset-requests", "120ms"),
        ],
        0.12,
    ),
    row(
        "Anthropic, requests",
        429,
        &[
            ("anthropic-ratelimit-requests-limit", "50"),
            ("anthropic-ratelimit-requests-remaining", "0"),
            ("anthropic-ratelimit-requests-reset", "2026-01-31T12:01:00Z"),
            ("anthropic-ratelimit-tokens-limit", "40000"),
            ("anthropic-ratelimit-tokens-remaining", "39000"),
            ("anthropic-ratelimit-tokens-reset", "2026-01-31T12:00:02Z"),
            ("retry-after", "58"),
        ],
        60.0,
    ),
    row(
        "Anthropic, output tokens",
        200,
        &[
            ("anthropic-ratelimit-requests-limit", "50"),
            ("anthropic-ratelimit-requests-remaining", "49"),
            ("anthropic-ratelimit-requests-reset", "2026-01-31T12:00:02Z"),
            ("anthropic-ratelimit-output-tokens-limit", "8000"),
            ("anthropic-ratelimit-output-tokens-remaining", "0"),
            ("anthropic-ratelimit-output-tokens-reset", "2026-01-31T12:00:30Z"),
        ],
        30.0,
    ),
    row(
        "Okta",
        429,
        &[
            ("x-rate-limit-limit", "600"),
            ("x-rate-limit-remaining", "0"),
            ("x-rate-limit-reset", "1769860860"),
        ],
        60.0,
    ),
    row(
        "X",
        429,
        &[
            ("x-rate-limit-limit", "75"),
            ("x-rate-limit-remaining", "0"),
            ("x-rate-limit-reset", "1769861700"),
        ],
        900.0,
    ),
    row(
        "Discord, a bucket",
        200,
        &[
            ("x-ratelimit-limit", "5"),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "1769860864.57"),
            ("x-ratelimit-reset-after", "64.57"),
            ("x-ratelimit-bucket", "abcd1234"),
        ],
        65.0,
    ),
    row("Discord, a refusal", 429, &[("retry-after", "64.57"), ("via", "1.1 google")], 65.0),
    row(
        "Mastodon",
        200,
        &[
            ("x-ratelimit-limit", "300"),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "2026-01-31T12:05:00.123456Z"),
        ],
        301.0,
    ),
    // No reset: the window, or the longest pause.
    row(
        "Docker",
        429,
        &[("ratelimit-limit", "100;w=21600"), ("ratelimit-remaining", "0;w=21600")],
        7_200.0,
    ),
    row("Shopify, a full bucket", 200, &[("x-shopify-shop-api-call-limit", "40/40")], 1.0),
    row("Shopify, the last place", 200, &[("x-shopify-shop-api-call-limit", "39/40")], 0.0),
    row(
        "Shopify, a refusal",
        429,
        &[("x-shopify-shop-api-call-limit", "40/40"), ("retry-after", "2.0")],
        2.0,
    ),
    row(
        "GitHub, the hour",
        403,
        &[
            ("x-ratelimit-limit", "5000"),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "1769861700"),
            ("x-ratelimit-resource", "core"),
        ],
        900.0,
    ),
    row(
        "GitHub, a secondary limit with a time",
        403,
        &[
            ("x-ratelimit-limit", "5000"),
            ("x-ratelimit-remaining", "4321"),
            ("x-ratelimit-reset", "1769861700"),
            ("retry-after", "90"),
        ],
        90.0,
    ),
    row(
        "GitHub, a secondary limit without a time",
        429,
        &[
            ("x-ratelimit-limit", "5000"),
            ("x-ratelimit-remaining", "4321"),
            ("x-ratelimit-reset", "1769861700"),
        ],
        60.0,
    ),
    row(
        "GitHub, a secondary limit by its name",
        403,
        &[
            ("gh-limited-by", "search"),
            ("x-ratelimit-limit", "30"),
            ("x-ratelimit-remaining", "14"),
            ("x-ratelimit-reset", "1769860850"),
        ],
        60.0,
    ),
    row(
        "GitHub, a lack of rights",
        403,
        &[
            ("x-ratelimit-limit", "5000"),
            ("x-ratelimit-remaining", "4321"),
            ("x-ratelimit-reset", "1769861700"),
        ],
        0.0,
    ),
    row(
        "GitLab",
        429,
        &[
            ("ratelimit-limit", "60"),
            ("ratelimit-remaining", "0"),
            ("ratelimit-reset", "1769860845"),
            ("ratelimit-resettime", "Sat, 31 Jan 2026 12:00:45 GMT"),
            ("retry-after", "45"),
        ],
        45.0,
    ),
    row(
        "Envoy",
        429,
        &[
            ("x-ratelimit-limit", "10, 10;w=60;name=\"default\""),
            ("x-ratelimit-remaining", "0"),
            ("x-ratelimit-reset", "59.9"),
        ],
        60.0,
    ),
];

fn answer(row: &Row) -> Response<Body> {
    let fields: Vec<_> = row.fields.iter().copied().chain([("date", DATE)]).collect();
    response(row.status, &fields)
}

/// The second request is sent when the first one's response says so.
#[tokio::test(start_paused = true)]
async fn each_field_set_is_followed() {
    for row in ROWS {
        let log = Log::default();
        let layer = ThrottleLayer::with_limiter(limiter(Quota::per_second(100))).unwrap();
        let client = client(&layer.within(Duration::MAX), &log, |index| match index {
            0 => answer(row),
            _ => response(200, &[]),
        });
        let start = Instant::now();
        for _ in 0..2 {
            get(&client, "a.example").await.unwrap();
        }
        let sent = log.since(start)[1].as_secs_f64();
        let is_due = (row.seconds..row.seconds + 0.05).contains(&sent);
        assert!(is_due, "{}: {sent}, expected {}", row.whose, row.seconds);
    }
}

/// Five minutes or more of four clients, of a server that answers like this from time to time.
#[tokio::test(start_paused = true)]
async fn no_request_is_sent_before_the_time_that_was_announced() {
    for row in ROWS.iter().copied() {
        let open_at = Arc::new(Mutex::new((Instant::now(), 0)));
        let early = Arc::new(Mutex::new(Vec::new()));
        let (open, seen) = (Arc::clone(&open_at), Arc::clone(&early));
        let server = service_fn(move |_: Request<Body>| {
            let (now, mut open) = (Instant::now(), open.lock().unwrap());
            open.1 += 1;
            if now < open.0 {
                seen.lock().unwrap().push(open.0 - now);
            }
            let is_closed = open.1 % 50 == 0;
            if is_closed {
                open.0 = now + Duration::from_secs_f64(row.seconds);
            }
            let response = if is_closed { answer(&row) } else { response(200, &[]) };
            async move { Ok::<_, BoxError>(response) }
        });
        let layer = ThrottleLayer::with_limiter(limiter(Quota::per_second(10))).unwrap();
        let client = layer.within(Duration::MAX).layer(server);
        let end = Instant::now() + Duration::from_secs_f64(300.0 + 3.0 * row.seconds);
        let mut tasks = JoinSet::new();
        for _ in 0..4 {
            let client = client.clone();
            tasks.spawn(async move {
                while Instant::now() < end {
                    client.clone().oneshot(crate::request_to("a.example")).await.unwrap();
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
        let row = uri.path().trim_matches('/').parse().ok().and_then(|row: usize| ROWS.get(row));
        row.map_or_else(|| response(404, &[]), answer).map(|_| String::new())
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
    for (index, row) in ROWS.iter().enumerate() {
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
    let names: BTreeSet<_> = ROWS.iter().map(|row| row.whose).collect();
    assert_eq!(names.len(), ROWS.len());
}
