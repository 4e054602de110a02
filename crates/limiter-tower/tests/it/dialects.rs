//! The header fields of each dialect, and what clients may see.

use std::{
    collections::BTreeSet,
    time::{SystemTime, UNIX_EPOCH},
};

use crate::{
    dialect_choices::{EACH, name},
    *,
};

const X_DELTA: Headers = Headers::XRateLimit(Reset::Delta);

/// Returns a layer of a GCRA policy.
fn gcra(name: &str, quota: Quota) -> RateLimitLayer {
    per_address(limiter_of(Policy::gcra(name, quota)).0)
}

/// Returns answers with these fields.
fn by(headers: Headers) -> Answers {
    Answers::new().headers(headers)
}

async fn headers(layer: &RateLimitLayer) -> HeaderMap {
    let service = layer.layer(service_fn(hello));
    send(&service, request()).await.headers().clone()
}

/// Returns the values of the three single-valued fields with this prefix.
fn triple<'h>(headers: &'h HeaderMap, prefix: &str) -> [Option<&'h str>; 3] {
    ["limit", "remaining", "reset"]
        .map(|name| header(headers, &format!("{prefix}ratelimit-{name}")))
}

/// Returns the names of all fields about rate limits.
fn names(headers: &HeaderMap) -> Vec<&str> {
    let mut names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
    names.retain(|name| name.contains("ratelimit") || *name == "retry-after");
    names.sort_unstable();
    names
}

#[tokio::test]
async fn each_dialect_has_its_fields_and_exposes_them() {
    let rows = [
        (Headers::default(), &["ratelimit", "ratelimit-policy"][..]),
        (Headers::RateLimitNext, &["ratelimit", "ratelimit-policy"]),
        (Headers::RateLimitReset, &["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"]),
        (X_DELTA, &["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"]),
        (
            Headers::RateLimitAndX(Reset::Delta),
            &[
                "ratelimit",
                "ratelimit-policy",
                "x-ratelimit-limit",
                "x-ratelimit-remaining",
                "x-ratelimit-reset",
            ],
        ),
        (Headers::None, &[]),
    ];
    let has_row: BTreeSet<_> = rows.iter().map(|(dialect, _)| name(*dialect)).collect();
    assert_eq!(has_row, EACH.map(name).into());
    for (dialect, expected) in rows {
        let layer = gcra("default", Quota::per_minute(1)).answers(by(dialect));
        assert_eq!(names(&headers(&layer).await), expected, "{dialect:?}");
        let refusal = headers(&layer).await;
        let exposed = dialect.exposed();
        let mut exposed: Vec<_> = exposed.iter().map(HeaderName::as_str).collect();
        exposed.retain(|name| !name.starts_with("grpc-"));
        exposed.sort_unstable();
        assert_eq!(names(&refusal), exposed, "{dialect:?}");
    }
}

/// The three fields of responses to one request after another.
#[tokio::test]
async fn single_valued_fields_report_the_most_restrictive_limit() {
    type Fields = &'static [[Option<&'static str>; 3]];
    let ten = || limiter_of(Policy::gcra("default", Quota::per_minute(10).with_burst(2))).0;
    // Of an hour and a second, 4 are left; the hour recovers last.
    let three = |order: [usize; 3]| {
        let rules = [("minute", "10/min"), ("hour", "5/h"), ("second", "5/s")];
        layer_of(order.map(|at| {
            let (name, limit) = rules[at];
            Rule::new(limiter_of(Policy::parse(name, limit).unwrap()).0, FixedKey::new(name))
        }))
    };
    let never = Decision::refused(Usage::new(10, 10, Duration::ZERO), None);
    let recovering: Fields = &[
        [Some("2"), Some("1"), Some("6")],
        [Some("2"), Some("0"), Some("12")],
        [Some("2"), Some("0"), Some("6")],
    ];
    let of_hour: Fields = &[[Some("5"), Some("4"), Some("720")]];
    let rows: [(&str, RateLimitLayer, Headers, &str, Fields); 6] = [
        ("drafts 3 to 6", per_address(ten()), Headers::RateLimitReset, "", recovering),
        ("with X-", per_address(ten()), X_DELTA, "x-", recovering),
        ("minute, hour, second", three([0, 1, 2]), Headers::RateLimitReset, "", of_hour),
        ("hour, second, minute", three([1, 2, 0]), Headers::RateLimitReset, "", of_hour),
        ("second, minute, hour", three([2, 0, 1]), Headers::RateLimitReset, "", of_hour),
        // A cost that never fits has no reset.
        (
            "never",
            per_address(returning(Ok(never))),
            X_DELTA,
            "x-",
            &[[Some("10"), Some("10"), None]],
        ),
    ];
    for (case, layer, dialect, prefix, responses) in rows {
        let layer = layer.answers(by(dialect));
        for (response, expected) in responses.iter().enumerate() {
            let headers = headers(&layer).await;
            assert_eq!(triple(&headers, prefix), *expected, "{case}, response {response}");
            assert!(expected[2].is_some() || header(&headers, "retry-after").is_none(), "{case}");
        }
    }
}

#[tokio::test]
async fn an_epoch_reset_is_a_time_that_is_not_too_early() {
    let layer =
        gcra("default", Quota::per_minute(10)).answers(by(Headers::XRateLimit(Reset::Epoch)));
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let wait = Duration::from_secs(6);
    let earliest = now() + wait;
    let headers = headers(&layer).await;
    let [limit, remaining, reset] = triple(&headers, "x-");
    assert_eq!((limit, remaining), (Some("10"), Some("9")));
    let reset = Duration::from_secs(reset.unwrap().parse().unwrap());
    assert!(earliest <= reset && reset <= now() + wait + Duration::from_secs(1), "{reset:?}");
}

#[tokio::test]
async fn single_valued_fields_report_the_most_restrictive_of_nested_layers() {
    let of = |quota| gcra("default", quota).answers(by(X_DELTA));
    let strict = || of(Quota::per_hour(5));
    // The second one has as many left, and recovers sooner.
    for other in [Quota::per_minute(10), Quota::per_second(5)] {
        for (inner, outer) in [(strict(), of(other)), (of(other), strict())] {
            let response = send(&nested(inner, outer), request()).await;
            assert_eq!(triple(response.headers(), "x-"), [Some("5"), Some("4"), Some("720")]);
        }
    }
}

#[tokio::test]
async fn an_inner_refusal_is_more_restrictive_than_an_outer_admission() {
    // The cost of 4 leaves 2 of the inner layer's permits, and then 0 of the outer one's.
    let inner = limiter_of(Policy::gcra("inner", Quota::per_hour(6))).0;
    let inner = layer_of([by_address(inner).cost(|_| Cost::of(4))]).answers(by(X_DELTA));
    let outer = gcra("outer", Quota::per_second(2)).answers(by(X_DELTA));
    let service = nested(inner, outer);
    send(&service, request()).await;
    let refusal = send(&service, request()).await;
    assert_eq!(refusal.status(), 429);
    assert_eq!(header(refusal.headers(), "retry-after"), Some("1200"));
    assert_eq!(triple(refusal.headers(), "x-"), [Some("6"), Some("2"), Some("1200")]);
}

#[tokio::test]
async fn disclosure_decides_what_clients_see() {
    let rows = [
        (Disclosure::Full, &["ratelimit", "ratelimit-policy"][..], Some("60"), true),
        (Disclosure::RetryAfterOnly, &[], Some("60"), false),
        (Disclosure::None, &[], None, false),
    ];
    for (disclosure, fields, retry_after, has_policy) in rows {
        let (limiter, _) = limiter(Quota::per_minute(1));
        let rule = by_address(limiter).disclose(disclosure);
        let layer = layer_of([rule]).answers(Answers::new().refuse_with(problem_json));
        let service = layer.layer(service_fn(hello));
        let admitted = send(&service, request()).await;
        assert_eq!(names(admitted.headers()), fields, "{disclosure:?}");

        let refusal = send(&service, request()).await;
        assert_eq!(refusal.status(), 429);
        assert_eq!(header(refusal.headers(), "retry-after"), retry_after, "{disclosure:?}");
        assert_eq!(header(refusal.headers(), "ratelimit").is_some(), has_policy);
        assert_eq!(header(refusal.headers(), "cache-control"), Some("no-store"));
        let body = text(refusal).await;
        assert_eq!(body.contains("default"), has_policy, "{body}");
    }
}

#[tokio::test]
async fn disclosure_is_a_choice_of_each_rule() {
    let (public, _) = limiter_of(Policy::gcra("public", Quota::per_minute(10)));
    let (secret, _) = limiter_of(Policy::gcra("secret", Quota::per_minute(1)));
    let layer = layer_of([by_address(public), for_all(secret).disclose(Disclosure::None)]);
    for _ in 0..2 {
        let headers = headers(&layer).await;
        assert!(!format!("{headers:?}").contains("secret"), "{headers:?}");
        assert_eq!(header(&headers, "retry-after"), None);
    }
}
