//! `RateLimit-Policy` and `RateLimit`, as draft-ietf-httpapi-ratelimit-headers-11 defines them.

use crate::{
    structured::{member, members},
    *,
};

/// Returns `RateLimit-Policy` and `RateLimit` of a response to the first request.
async fn both(layer: &RateLimitLayer) -> [String; 2] {
    let response = send(&layer.layer(service_fn(hello)), request()).await;
    ["ratelimit-policy", "ratelimit"]
        .map(|field| response.headers()[field].to_str().unwrap().into())
}

#[tokio::test]
async fn a_limit_has_its_fields() {
    let rows = [
        ("default", "100/h", "q=100;w=3600", "r=99;t=3564"),
        // Each name is carried.
        ("a b", "100/h", "q=100;w=3600", "r=99;t=3564"),
        (r#"quoted " and \"#, "100/h", "q=100;w=3600", "r=99;t=3564"),
        ("~!,;=", "100/h", "q=100;w=3600", "r=99;t=3564"),
        ("p", "7/2s", "q=7;w=2", "r=6;t=2"),
        ("p", "1000/s", "q=1000;w=1", "r=999;t=1"),
        // A burst that differs from the quota is a parameter, and `r` starts there.
        ("p", "10/s burst 100", "q=10;w=1;limiter-burst=100", "r=99;t=10"),
        ("p", "10/min burst 5", "q=10;w=60;limiter-burst=5", "r=4;t=24"),
        ("p", "10/s burst 1 by leaky-queue depth 50", "q=10;w=1;limiter-burst=1", "r=0;t=1"),
        // A window of a fraction of a second is given in whole seconds.
        ("p", "5/100ms", "q=50;w=1;limiter-burst=5", "r=4;t=1"),
        ("p", "3/1500ms", "q=4;w=2;limiter-burst=3", "r=2;t=1"),
        ("p", "1/1ms", "q=1000;w=1;limiter-burst=1", "r=0;t=1"),
        // 9 permits at 7 a minute: 77.1 s.
        ("p", "7/min burst 10", "q=7;w=60;limiter-burst=10", "r=9;t=78"),
        (
            "p",
            "31622400000000/366d burst 158112000000000",
            "q=31622400000000;w=31622400;limiter-burst=158112000000000",
            "r=158111999999999;t=158112000",
        ),
        // At most 2 of the 100 in each of 60 slots, of which the first may have passed.
        ("p", "100/min by sub-windows 60 slots paced", "q=100;w=60;limiter-burst=2", ""),
    ];
    for (name, limit, policy, left) in rows {
        let fields = both(&per_address(limiter_of(Policy::parse(name, limit).unwrap()).0)).await;
        let name = format!("\"{}\"", name.replace('\\', r"\\").replace('"', "\\\""));
        assert_eq!(fields[0], format!("{name};{policy}"), "{limit}");
        if left.is_empty() {
            assert!(["r=0;", "r=1;"].iter().any(|left| fields[1].contains(left)), "{fields:?}");
        } else {
            assert_eq!(fields[1], format!("{name};{left}"), "{limit}");
        }
    }
}

#[tokio::test]
async fn members_are_joined_by_a_comma_and_a_space_and_parameters_by_semicolons() {
    let (limiter, _) = limiter(Quota::per_minute(10).with_burst(5));
    let (other, _) = limiter_of(Policy::gcra("other", Quota::per_hour(100)));
    let service = layer_of([by_address(limiter), for_all(other)]);
    let response = send(&service.layer(service_fn(hello)), request()).await;
    let expected = "\"default\";q=10;w=60;limiter-burst=5, \"other\";q=100;w=3600";
    assert_eq!(header(response.headers(), "ratelimit-policy"), Some(expected));
    let expected = "\"default\";r=4;t=24, \"other\";r=99;t=3564";
    assert_eq!(header(response.headers(), "ratelimit"), Some(expected));
}

/// By limiters that count otherwise, or decide by a share of the quota.
#[tokio::test]
async fn decisions_have_their_fields() {
    const DEFAULT: &str = "q=10;w=60";
    let second = Duration::from_secs;
    let policy = Policy::gcra("default", Quota::per_minute(100).with_burst(20));
    let of_share = |decision: Decision, source| {
        let decision = decision.with_source(source);
        Fake::new(policy.clone(), move || LimiterFuture::ready(Ok(decision)))
    };
    let share = Decision::admitted(Usage::new(5, 4, second(3)));
    let spent = Decision::refused(Usage::new(5, 0, second(12)), Some(second(3)));
    let most = Decision::admitted(Usage::new(u64::MAX, u64::MAX, Duration::MAX));
    let debt = Decision::admitted(Usage::new(10, 0, second(90)));
    let whole = Decision::admitted(Usage::new(20, 4, second(3)));
    // A quarter of the quota: 25 a minute, so 4 permits in 9.6 s.
    let quarter = "q=25;w=60;limiter-burst=5";
    let all = "q=100;w=60;limiter-burst=20";
    let rows: [(&str, Rule, &str, &str); 6] = [
        ("share", by_address(of_share(share, Source::Local)), quarter, "r=4;t=10"),
        ("spent share", by_address(of_share(spent, Source::Local)), quarter, "r=0;t=3"),
        ("state", by_address(of_share(whole, Source::State)), all, "r=4;t=3"),
        ("cache", by_address(of_share(spent, Source::Cache)), all, "r=0;t=3"),
        // An admission into debt, of a cost above the limit.
        ("debt", by_address(returning(Ok(debt))).cost(|_| Cost::of(15)), DEFAULT, "r=0;t=90"),
        // More than the range of an integer is the end of the range.
        ("most", by_address(returning(Ok(most))), "", "r=999999999999999;"),
    ];
    for (case, rule, policy, left) in rows {
        let [policies, limits] = both(&layer_of([rule])).await;
        assert!(policies.starts_with(&format!("\"default\";{policy}")), "{case}: {policies}");
        assert!(limits.starts_with(&format!("\"default\";{left}")), "{case}: {limits}");
        let lengths = (policies.len(), limits.len());
        assert!(case == "most" || lengths == (10 + policy.len(), 10 + left.len()), "{case}");
    }
}

/// After each pause, in seconds: the wait until the same cost is admitted, or until a window ends.
#[tokio::test]
async fn each_response_reports_what_is_left_and_until_when() {
    type Steps = &'static [(u64, u16, &'static str)];
    let parse = |name, limit| Policy::parse(name, limit).unwrap();
    let several = [parse("burst", "2/s"), parse("daily", "3/d by fixed-window")];
    let rows: [(Policy, u64, &str, Steps); 3] = [
        // 6, then 2 of 4 are left: two more recover in 12 s.
        (
            parse("p", "10/min"),
            4,
            "\"p\";q=10;w=60",
            &[
                (0, 200, "\"p\";r=6;t=36"),
                (0, 200, "\"p\";r=2;t=12"),
                (0, 429, "\"p\";r=2;t=12"),
                (12, 200, "\"p\";r=0;t=24"),
            ],
        ),
        (
            parse("p", "2/min by fixed-window"),
            1,
            "\"p\";q=2;w=60",
            &[(0, 200, "\"p\";r=1;t=60"), (10, 200, "\"p\";r=0;t=50"), (10, 429, "\"p\";r=0;t=40")],
        ),
        // All limits are listed, and that one is reported which has decided.
        (
            Policy::all_of("api", several).unwrap(),
            1,
            "\"burst\";q=2;w=1, \"daily\";q=3;w=86400",
            &[
                (0, 200, "\"burst\";r=1;t=1"),
                (0, 200, "\"burst\";r=0;t=1"),
                (0, 429, "\"burst\";r=0;t=1"),
                (1, 200, "\"daily\";r=0;t=86399"),
                (1, 429, "\"daily\";r=0;t=86398"),
            ],
        ),
    ];
    for (policy, cost, policies, steps) in rows {
        let (limiter, clock) = limiter_of(policy);
        let rule = by_address(limiter).cost(move |_| Cost::of(cost));
        let service = layer_of([rule]).layer(service_fn(hello));
        for (step, (pause, status, left)) in steps.iter().enumerate() {
            clock.advance(Duration::from_secs(*pause));
            let response = send(&service, request()).await;
            let case = format!("{policies}, step {step}");
            assert_eq!(response.status(), *status, "{case}");
            assert_eq!(header(response.headers(), "ratelimit"), Some(*left), "{case}");
            assert_eq!(header(response.headers(), "ratelimit-policy"), Some(policies), "{case}");
        }
    }
}

#[tokio::test]
async fn an_inner_layers_members_are_kept_and_outer_ones_are_appended() {
    let (outer, _) = limiter(Quota::per_minute(10));
    let (inner, _) = limiter_of(Policy::gcra("strict", Quota::per_minute(1)));
    let service = nested(per_address(inner), per_address(outer));
    for _ in 0..2 {
        let response = send(&service, request()).await;
        let limits = members(response.headers(), "ratelimit");
        assert_eq!(limits.first(), Some(&member("strict", [("r", 0), ("t", 60)])));
        for field in ["ratelimit", "ratelimit-policy"] {
            let names = structured::names(response.headers(), field);
            assert_eq!(names, ["strict", "default"], "{field}");
        }
    }
}
