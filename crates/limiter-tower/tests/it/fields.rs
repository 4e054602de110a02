//! `RateLimit-Policy` and `RateLimit`, as draft-ietf-httpapi-ratelimit-headers-11 defines them.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use limiter_core::{Cost, Decision, LimiterFuture, Policy, Quota, Source, Usage};
use limiter_test::fake::Fake;
use tower::{Layer, service_fn};

use crate::{
    by_address, for_all, header, hello, layer_of, limiter, limiter_of, nested, per_address,
    request_from, send,
    structured::{Member, member, members},
};

/// Returns the only member of both fields of a response to the first request.
async fn first(policy: Policy) -> (Member, Member) {
    let service = per_address(limiter_of(policy).0).layer(service_fn(hello));
    let response = send(&service, request_from("192.0.2.1")).await;
    both(response.headers())
}

fn both(headers: &HeaderMap) -> (Member, Member) {
    let only = |field| {
        let members = members(headers, field);
        let [member] = members.as_slice() else { panic!("one member: {members:?}") };
        member.clone()
    };
    (only("ratelimit-policy"), only("ratelimit"))
}

#[tokio::test]
async fn every_policy_name_is_carried() {
    for name in ["default", "a b", r#"quoted " and \"#, "~!,;="] {
        let (policy, limit) = first(Policy::gcra(name, Quota::per_hour(100))).await;
        assert_eq!(policy, member(name, [("q", 100), ("w", 3_600)]));
        assert_eq!(limit, member(name, [("r", 99), ("t", 3_564)]));
    }
}

#[tokio::test]
async fn members_are_joined_by_a_comma_and_a_space_and_parameters_by_semicolons() {
    let (limiter, _) = limiter(Quota::per_minute(10).with_burst(5));
    let (other, _) = limiter_of(Policy::gcra("other", Quota::per_hour(100)));
    let service = layer_of([by_address(limiter), for_all(other)]);
    let response = send(&service.layer(service_fn(hello)), request_from("192.0.2.1")).await;
    let expected = "\"default\";q=10;w=60;limiter-burst=5, \"other\";q=100;w=3600";
    assert_eq!(header(response.headers(), "ratelimit-policy"), Some(expected));
    let expected = "\"default\";r=4;t=24, \"other\";r=99;t=3564";
    assert_eq!(header(response.headers(), "ratelimit"), Some(expected));
}

#[tokio::test]
async fn a_limit_has_its_fields() {
    for (limit, policy, left) in [
        ("7/2s", "q=7;w=2", "r=6;t=2"),
        ("1000/s", "q=1000;w=1", "r=999;t=1"),
        // A burst that differs from the quota is a parameter, and `r` starts there.
        ("10/s burst 100", "q=10;w=1;limiter-burst=100", "r=99;t=10"),
        ("10/min burst 5", "q=10;w=60;limiter-burst=5", "r=4;t=24"),
        ("10/s burst 1 by leaky-queue depth 50", "q=10;w=1;limiter-burst=1", "r=0;t=1"),
        // A window of a fraction of a second is given in whole seconds.
        ("5/100ms", "q=50;w=1;limiter-burst=5", "r=4;t=1"),
        ("3/1500ms", "q=4;w=2;limiter-burst=3", "r=2;t=1"),
        ("1/1ms", "q=1000;w=1;limiter-burst=1", "r=0;t=1"),
        // 9 permits at 7 a minute: 77.1 s.
        ("7/min burst 10", "q=7;w=60;limiter-burst=10", "r=9;t=78"),
        (
            "31622400000000/366d burst 158112000000000",
            "q=31622400000000;w=31622400;limiter-burst=158112000000000",
            "r=158111999999999;t=158112000",
        ),
    ] {
        let service = per_address(limiter_of(Policy::parse("p", limit).unwrap()).0);
        let response = send(&service.layer(service_fn(hello)), request_from("192.0.2.1")).await;
        for (field, expected) in [("ratelimit-policy", policy), ("ratelimit", left)] {
            let expected = format!("\"p\";{expected}");
            assert_eq!(header(response.headers(), field), Some(&*expected), "{limit}");
        }
    }
    // At most 2 of the 100 in each of 60 slots.
    let (policy, limit) =
        first(Policy::parse("p", "100/min by sub-windows 60 slots paced").unwrap()).await;
    assert_eq!(policy, member("p", [("q", 100), ("w", 60), ("limiter-burst", 2)]));
    assert!(limit.get("r") <= Some(1), "{limit:?}");
}

/// From a limiter that counts otherwise.
#[tokio::test]
async fn more_than_the_range_of_an_integer_is_the_end_of_the_range() {
    let usage = Usage::new(u64::MAX, u64::MAX, Duration::MAX);
    let policy = Policy::gcra("p", Quota::per_second(1));
    let fake = Fake::new(policy, move || LimiterFuture::ready(Ok(Decision::admitted(usage))));
    let service = per_address(fake).layer(service_fn(hello));
    let response = send(&service, request_from("192.0.2.1")).await;
    assert_eq!(both(response.headers()).1.get("r"), Some(999_999_999_999_999));
}

#[tokio::test]
async fn without_enough_left_t_is_the_wait_until_the_same_cost_is_admitted() {
    let (limiter, clock) = limiter(Quota::per_minute(10));
    let service = layer_of([by_address(limiter).cost(|_| Cost::of(4))]).layer(service_fn(hello));
    // 6, then 2 of 4 are left: two more recover in 12 s.
    for (status, r, t) in [(200, 6, 36), (200, 2, 12), (429, 2, 12)] {
        let response = send(&service, request_from("192.0.2.1")).await;
        assert_eq!(response.status(), status);
        assert_eq!(both(response.headers()).1, member("default", [("r", r), ("t", t)]));
    }
    clock.advance(Duration::from_secs(12));
    assert_eq!(send(&service, request_from("192.0.2.1")).await.status(), 200);
}

#[tokio::test]
async fn of_a_fixed_window_t_is_the_time_to_its_end() {
    let (limiter, clock) = limiter_of(Policy::fixed_window("default", Quota::per_minute(2)));
    let service = per_address(limiter).layer(service_fn(hello));
    for (status, r, t) in [(200, 1, 60), (200, 0, 50), (429, 0, 40)] {
        let response = send(&service, request_from("192.0.2.1")).await;
        assert_eq!(response.status(), status);
        assert_eq!(both(response.headers()).1, member("default", [("r", r), ("t", t)]));
        clock.advance(Duration::from_secs(10));
    }
}

#[tokio::test]
async fn a_policy_of_several_limits_lists_all_and_reports_the_one_that_decided() {
    let burst = Policy::gcra("burst", Quota::per_second(2));
    let daily = Policy::fixed_window("daily", Quota::per_day(3));
    let (limiter, clock) = limiter_of(Policy::all_of("api", [burst, daily]).unwrap());
    let service = per_address(limiter).layer(service_fn(hello));
    let rows = [
        (StatusCode::OK, "\"burst\";r=1;t=1"),
        (StatusCode::OK, "\"burst\";r=0;t=1"),
        (StatusCode::TOO_MANY_REQUESTS, "\"burst\";r=0;t=1"),
        (StatusCode::OK, "\"daily\";r=0;t=86399"),
        (StatusCode::TOO_MANY_REQUESTS, "\"daily\";r=0;t=86398"),
    ];
    for (index, (status, limit)) in rows.into_iter().enumerate() {
        let response = send(&service, request_from("192.0.2.1")).await;
        assert_eq!(response.status(), status);
        assert_eq!(header(response.headers(), "ratelimit"), Some(limit));
        let policies = "\"burst\";q=2;w=1, \"daily\";q=3;w=86400";
        assert_eq!(header(response.headers(), "ratelimit-policy"), Some(policies));
        clock.advance(if index < 2 { Duration::ZERO } else { Duration::from_secs(1) });
    }
}

#[tokio::test]
async fn an_inner_layers_members_are_kept_and_outer_ones_are_appended() {
    let (outer, _) = limiter(Quota::per_minute(10));
    let (inner, _) = limiter_of(Policy::gcra("strict", Quota::per_minute(1)));
    let service = nested(per_address(inner), per_address(outer));
    for r in [0, 0] {
        let response = send(&service, request_from("192.0.2.1")).await;
        let limits = members(response.headers(), "ratelimit");
        assert_eq!(limits.first(), Some(&member("strict", [("r", r), ("t", 60)])));
        let names = |field| {
            let members = members(response.headers(), field);
            members.into_iter().map(|member| member.name).collect::<Vec<_>>()
        };
        assert_eq!(names("ratelimit"), ["strict", "default"]);
        assert_eq!(names("ratelimit-policy"), ["strict", "default"]);
    }
}

#[tokio::test]
async fn while_a_local_share_decides_q_is_the_share() {
    let policy = Policy::gcra("default", Quota::per_minute(100).with_burst(20));
    let (share, wait) = (Usage::new(5, 4, Duration::from_secs(3)), Duration::from_secs(3));
    let spent = Usage::new(5, 0, Duration::from_secs(12));
    let rows = [
        // A quarter of the quota: 25 a minute, so 4 permits in 9.6 s.
        (Decision::admitted(share), Source::Local, 25, 5, 4, 10),
        (Decision::refused(spent, Some(wait)), Source::Local, 25, 5, 0, 3),
        (Decision::admitted(Usage::new(20, 4, wait)), Source::State, 100, 20, 4, 3),
        (Decision::refused(spent, Some(wait)), Source::Cache, 100, 20, 0, 3),
    ];
    for (decision, source, q, burst, r, t) in rows {
        let decision = decision.with_source(source);
        let fake = Fake::new(policy.clone(), move || LimiterFuture::ready(Ok(decision)));
        let service = per_address(fake).layer(service_fn(hello));
        let response = send(&service, request_from("192.0.2.1")).await;
        let (policy, limit) = both(response.headers());
        let parameters = [("q", q), ("w", 60), ("limiter-burst", burst)];
        assert_eq!(policy, member("default", parameters), "{decision:?}");
        assert_eq!(limit, member("default", [("r", r), ("t", t)]), "{decision:?}");
    }
}

#[tokio::test]
async fn an_admitted_cost_above_the_limit_is_reported() {
    // A limiter of an application's own may admit it, into debt.
    let usage = Usage::new(10, 0, Duration::from_secs(90));
    let policy = Policy::gcra("default", Quota::per_minute(10));
    let fake = Fake::new(policy, move || LimiterFuture::ready(Ok(Decision::admitted(usage))));
    let service = layer_of([by_address(fake).cost(|_| Cost::of(15))]).layer(service_fn(hello));
    let response = send(&service, request_from("192.0.2.1")).await;
    assert_eq!(both(response.headers()).1, member("default", [("r", 0), ("t", 90)]));
}
