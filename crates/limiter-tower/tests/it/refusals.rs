//! Responses to HTTP requests that are not admitted.

use crate::*;

const TEN: Quota = Quota::per_minute(10);

/// A key that no request has, because of the client or of the server.
#[derive(Debug)]
struct NoKey(MissingKey);

impl KeyExtractor for NoKey {
    fn key<'r>(&self, _: Head<'r>) -> Result<Key<'r>, MissingKey> {
        Err(self.0.clone())
    }

    fn source(&self) -> KeySource {
        KeySource::Own
    }
}

/// Returns a layer of a limiter that returns this.
fn denying(result: Result<Decision, ErrorKind>) -> RateLimitLayer {
    layer_of([for_all(returning(result)).on_store_failure(OnStoreFailure::Deny)])
}

/// Returns a layer that refuses requests, and makes them wait so long.
fn refusing(wait: Option<Duration>) -> RateLimitLayer {
    denying(Ok(Decision::refused(Usage::new(10, 0, Duration::from_secs(60)), wait)))
}

fn rejecting(missing: MissingKey) -> RateLimitLayer {
    let (limiter, _) = limiter_of(Policy::gcra("default", TEN));
    RateLimitLayer::new(limiter, NoKey(missing))
}

/// Returns a layer for each status of a refusal.
fn each() -> [(u16, RateLimitLayer); 4] {
    [
        (429, refusing(Some(Duration::from_millis(1_500)))),
        (503, denying(Err(ErrorKind::Unavailable))),
        (400, rejecting(MissingKey::absent("the header \"x-api-key\" is missing"))),
        (500, rejecting(MissingKey::server("insert the internal ConnectInfo"))),
    ]
}

async fn refusal(layer: &RateLimitLayer) -> (StatusCode, HeaderMap, String) {
    let service = layer.layer(service_fn(hello));
    let response = send(&service, request()).await;
    (response.status(), response.headers().clone(), text(response).await)
}

#[tokio::test]
async fn retry_after_is_the_wait_in_seconds_rounded_up_and_at_least_one() {
    for (wait, expected) in [(0, "1"), (1, "1"), (1_000, "1"), (1_001, "2"), (86_400_000, "86400")]
    {
        let (_, headers, _) = refusal(&refusing(Some(Duration::from_millis(wait)))).await;
        assert_eq!(header(&headers, "retry-after"), Some(expected), "{wait} ms");
    }
}

/// A text by default, which no cache may store.
#[tokio::test]
async fn each_refusal_has_its_status_its_wait_and_its_text() {
    let rows = [
        (Some("2"), "rate limit exceeded\n"),
        (Some("1"), "the rate limit can't be checked now\n"),
        (None, "the header \"x-api-key\" is missing\n"),
        // How the server is set up is not for clients, but for who develops it.
        (
            None,
            match cfg!(debug_assertions) {
                true => "the rate limit is not set up: insert the internal ConnectInfo\n",
                false => "the rate limit is not set up\n",
            },
        ),
    ];
    for ((status, layer), (retry_after, text)) in each().into_iter().zip(rows) {
        let (found, headers, body) = refusal(&layer).await;
        assert_eq!((found.as_u16(), body.as_str()), (status, text));
        assert_eq!(header(&headers, "retry-after"), retry_after, "{status}");
        assert_eq!(header(&headers, "cache-control"), Some("no-store"), "{status}");
        assert_eq!(header(&headers, "content-type"), Some("text/plain; charset=utf-8"));
    }
}

#[tokio::test]
async fn problem_details_are_those_of_the_registered_types() {
    let golden = [
        r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"retry-after":2,"violated-policies":["default"]}"#,
        r#"{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Temporary Reduced Capacity","status":503,"retry-after":1}"#,
        r#"{"title":"Bad Request","status":400,"detail":"the header \"x-api-key\" is missing"}"#,
        match cfg!(debug_assertions) {
            true => {
                r#"{"title":"Internal Server Error","status":500,"detail":"the rate limit is not set up: insert the internal ConnectInfo"}"#
            }
            false => {
                r#"{"title":"Internal Server Error","status":500,"detail":"the rate limit is not set up"}"#
            }
        },
    ];
    for ((status, layer), golden) in each().into_iter().zip(golden) {
        let (found, headers, body) =
            refusal(&layer.answers(Answers::new().refuse_with(problem_json))).await;
        assert_eq!(header(&headers, "content-type"), Some("application/problem+json"));
        assert_eq!(body, golden);
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((found.as_u16(), &body["status"]), (status, &json!(status)));
    }
}

#[tokio::test]
async fn problems_describe_the_refusal() {
    let name = r#"a "quoted" \ name"#;
    let quoted = || Policy::gcra(name, Quota::per_minute(1));
    let several = Policy::all_of("api", [quoted(), Policy::gcra("daily", Quota::per_day(9))]);
    let of = |policy| layer_of([for_all(limiter_of(policy).0)]);
    let invalid = "a \"tab\"\t, a \\, a line\n, \u{1}, \u{7f} and \u{fc}";
    // A deep query or a large batch may cost more than the burst.
    let graphql = limiter_of(Policy::gcra("graphql", Quota::per_minute(100))).0;
    let never = "the request costs more than the rate limit can admit";
    let rows: [(&str, RateLimitLayer, Option<&str>, Value); 4] = [
        ("the limit that refused", of(quoted()), Some(name), Value::Null),
        ("of several limits", of(several.unwrap()), Some(name), Value::Null),
        (
            "no wait helps",
            layer_of([for_all(graphql).cost(|_| Cost::of(101))]),
            Some("graphql"),
            json!(never),
        ),
        ("escaped", rejecting(MissingKey::invalid(invalid)), None, json!(invalid)),
    ];
    for (case, layer, violated, detail) in rows {
        let layer = layer.answers(Answers::new().refuse_with(problem_json));
        refusal(&layer).await;
        let (_, headers, body) = refusal(&layer).await;
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["detail"], detail, "{case}");
        let expected = violated.map_or(Value::Null, |name| json!([name]));
        assert_eq!(body["violated-policies"], expected, "{case}");
        let fields = violated.map(|_| structured::members(&headers, "ratelimit"));
        assert_eq!(fields.as_ref().map(|it| &*it[0].name), violated, "{case}");
        if violated == Some("graphql") {
            assert_eq!((&body["status"], header(&headers, "retry-after")), (&json!(429), None));
            assert_eq!(header(&headers, "ratelimit"), Some("\"graphql\";r=100"));
            assert_eq!(body["retry-after"], Value::Null);
        }
    }
}

#[tokio::test]
async fn a_closure_returns_any_response() {
    let (limiter, _) = limiter_of(Policy::gcra("default", Quota::per_minute(1)));
    let by_path = key_fn(|head| Some(head.path().into())).assume_verified().or_reject();
    let layer =
        RateLimitLayer::new(limiter, by_path).answers(Answers::new().refuse_with(|refusal| {
            let decided = refusal.decisions().next().unwrap();
            let (limit, decision) = (decided.limit().unwrap(), decided.decision());
            assert!(matches!(refusal.reason(), Reason::Quota(_)));
            let body = format!(
                "{} {}: {} of {} left in {:?}, {}",
                refusal.head().path(),
                refusal.policy().unwrap().name(),
                decision.remaining(),
                limit.quota(),
                refusal.retry_after().unwrap(),
                refusal.status(),
            );
            let response = Response::builder().status(StatusCode::PAYLOAD_TOO_LARGE);
            response.header("x-own", "yes").body(Bytes::from(body)).unwrap()
        }));
    let service = layer.layer(service_fn(hello));
    send(&service, Request::new(Body::default())).await;
    let refusal = send(&service, Request::new(Body::default())).await;
    assert_eq!(refusal.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(header(refusal.headers(), "x-own"), Some("yes"));
    assert_eq!(header(refusal.headers(), "retry-after"), Some("60"));
    assert_eq!(header(refusal.headers(), "cache-control"), Some("no-store"));
    assert_eq!(text(refusal).await, "/ default: 0 of 1/min left in 60s, 429 Too Many Requests");
}

#[tokio::test]
async fn a_closures_own_fields_are_kept() {
    let layer = refusing(Some(Duration::from_secs(6))).answers(Answers::new().refuse_with(|_| {
        let response = Response::builder().header("retry-after", "100");
        response.header("cache-control", "private").body(Bytes::new()).unwrap()
    }));
    let (status, headers, _) = refusal(&layer).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(header(&headers, "retry-after"), Some("100"));
    assert_eq!(headers.get_all("retry-after").iter().count(), 1);
    assert_eq!(header(&headers, "cache-control"), Some("private"));
}

/// What was charged is given back before a closure of the application is called.
#[tokio::test]
async fn a_panic_in_the_closure_keeps_no_charge() {
    for (case, other) in [
        ("full", for_all(hourly("full", 1)).cost(|_| Cost::of(2))),
        ("full store", for_all(Deferred::new(hourly("full", 1))).cost(|_| Cost::of(2))),
        ("failing", for_all(failing("failing")).on_store_failure(OnStoreFailure::Deny)),
    ] {
        let charged = by_address(hourly("charged", 9));
        let layer = layer_of([charged.clone(), other])
            .answers(Answers::new().refuse_with(|_| panic!("as the test wants")));
        let call = layer.layer(service_fn(hello)).oneshot(request());
        assert!(tokio::spawn(call).await.unwrap_err().is_panic(), "{case}");
        let key = charged.key(&request()).unwrap().into_owned();
        assert_eq!(charged.peek(&key).await.unwrap().used(), 0, "{case}");
    }
}
