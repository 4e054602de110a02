//! The policy of each request.

use std::sync::Arc;

use axum::{Router, body, extract::MatchedPath, routing::get};
use http::{Method, Request};
use limiter_core::{ErrorKind, ManualClock, MemoryLimiter, Policy, Quota};
use limiter_tower::{
    key::Head,
    observe::Decisions,
    plan::{Plan, Plans},
};
use tower::{Layer, ServiceExt, service_fn};

use crate::{Body, by_address, for_all, header, hello, layer_of, limiter, request_from, send};

/// An authentication layer would insert it.
#[derive(Clone)]
struct Tier(&'static str);

fn of_tier(tier: &'static str) -> Request<Body> {
    let mut request = request_from("192.0.2.1");
    request.extensions_mut().insert(Tier(tier));
    request
}

fn gcra(name: &str, permits: u64) -> Policy {
    Policy::gcra(name, Quota::per_hour(permits))
}

/// Returns a limiter of one permit, and plans of two and three permits over its states.
fn plans() -> (MemoryLimiter<ManualClock>, Plans) {
    let (limiter, _) = limiter(Quota::per_hour(1));
    let plans = Plans::new(limiter.clone(), [gcra("silver", 2), gcra("gold", 3)]).unwrap();
    (limiter, plans)
}

#[tokio::test]
async fn a_tier_has_its_own_quota_over_the_same_states() {
    let (limiter, plans) = plans();
    let rule =
        by_address(limiter).plan(plans.by_extension(|tier: &Tier| tier.0, "default").unwrap());
    let service = layer_of([rule.clone()]).layer(service_fn(hello));
    let mut seen = Vec::new();
    for tier in ["gold", "gold", "silver", "gold", "gold"] {
        let response = send(&service, of_tier(tier)).await;
        seen.push((tier, response.status().as_u16()));
    }
    // Two thirds of the burst are used. A permit of silver is half of it, and one of gold a third.
    let expected = [("gold", 200), ("gold", 200), ("silver", 429), ("gold", 200), ("gold", 429)];
    assert_eq!(seen, expected);
    let refusal = send(&service, of_tier("gold")).await;
    assert_eq!(header(refusal.headers(), "ratelimit-policy"), Some("\"gold\";q=3;w=3600"));
    let decisions = refusal.extensions().get::<Decisions>().unwrap();
    assert_eq!(decisions.of(&rule).unwrap().policy().name(), "gold");
}

#[tokio::test]
async fn a_tier_that_no_plan_has_is_a_choice() {
    for (otherwise, expected) in [("default", [200, 429, 429]), ("silver", [200, 200, 429])] {
        for unknown in [of_tier("platinum"), request_from("192.0.2.1")] {
            let (limiter, plans) = plans();
            let select = plans.by_extension(|tier: &Tier| tier.0, otherwise).unwrap();
            let service = layer_of([by_address(limiter).plan(select)]).layer(service_fn(hello));
            for status in expected {
                assert_eq!(send(&service, unknown.clone()).await.status(), status, "{otherwise}");
            }
        }
    }
}

#[tokio::test]
async fn a_request_without_a_tier_follows_the_rules_live_policy() {
    let (limiter, plans) = plans();
    let select = plans.by_extension(|tier: &Tier| tier.0, "default").unwrap();
    let rule = by_address(limiter).plan(select);
    let service = layer_of([rule.clone()]).layer(service_fn(hello));
    rule.set_policy(&gcra("default", 2)).unwrap();
    assert_eq!(crate::statuses(&service, 3).await, [200, 200, 429]);
}

#[test]
fn a_plan_that_a_selector_names_is_never_missing() {
    let (_, plans) = plans();
    let error = plans.by_extension(|tier: &Tier| tier.0, "bronze").err().unwrap();
    let expected = "unknown plan \"bronze\"; expected one of \"default\", \"gold\", \"silver\"";
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::InvalidName, expected));

    let _select = plans.by_extension(|tier: &Tier| tier.0, "silver").unwrap();
    let error = plans.replace([gcra("gold", 100)]).unwrap_err();
    let expected = "unknown plan \"silver\"; expected one of \"default\", \"gold\"";
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::InvalidName, expected));
    assert_eq!(plans.get("gold").unwrap().policy(), &gcra("gold", 3));
    plans.replace([gcra("silver", 100)]).unwrap();
}

#[tokio::test]
async fn a_reloaded_table_applies_to_the_next_request() {
    let (limiter, plans) = plans();
    let rule =
        by_address(limiter).plan(plans.by_extension(|tier: &Tier| tier.0, "default").unwrap());
    let service = layer_of([rule]).layer(service_fn(hello));
    for status in [200, 200, 200, 429] {
        assert_eq!(send(&service, of_tier("gold")).await.status(), status);
    }
    plans.replace([gcra("gold", 100)]).unwrap();
    // The key is still used up, and recovers at the new rate.
    let refusal = send(&service, of_tier("gold")).await;
    assert_eq!(header(refusal.headers(), "retry-after"), Some("36"));
    assert_eq!(header(refusal.headers(), "ratelimit-policy"), Some("\"gold\";q=100;w=3600"));
    assert!(plans.get("silver").is_none());
}

#[test]
fn names_are_checked_when_the_table_is_built() {
    let (limiter, plans) = plans();
    let error = Plans::new(limiter.clone(), [gcra("gold", 1), gcra("gold", 2)]).unwrap_err();
    assert_eq!(error.to_string(), "two plans are named \"gold\"; give each a name of its own");
    let other = Policy::fixed_window("window", Quota::per_hour(1));
    assert_eq!(Plans::new(limiter, [other]).unwrap_err().kind(), ErrorKind::InvalidSetting);
    // A failed replacement changes nothing.
    plans.replace([gcra("a", 1), gcra("a", 2)]).unwrap_err();
    assert!(plans.get("gold").is_some());
}

#[tokio::test]
async fn the_limiters_own_policy_is_one_of_the_plans() {
    let (limiter, plans) = plans();
    let rule =
        by_address(limiter).plan(plans.by_extension(|tier: &Tier| tier.0, "default").unwrap());
    let service = layer_of([rule.clone()]).layer(service_fn(hello));
    assert_eq!(crate::statuses(&service, 2).await, [200, 429]);
    // A reload that names it replaces it.
    plans.replace([gcra("default", 7), gcra("gold", 3)]).unwrap();
    assert_eq!(plans.get("default").unwrap().policy(), &gcra("default", 7));
}

#[tokio::test]
async fn methods_have_their_plans() {
    let (limiter, plans) = plans();
    let gold = plans.get("gold").unwrap();
    let of_method = move |head: Head<'_>| (*head.method == Method::GET).then(|| gold.clone());
    let service = layer_of([for_all(limiter).plan(of_method)]).layer(service_fn(hello));
    let mut statuses = Vec::new();
    for method in [Method::GET, Method::POST, Method::GET, Method::GET] {
        let request = Request::builder().method(method).body(Body::default()).unwrap();
        statuses.push(send(&service, request).await.status().as_u16());
    }
    assert_eq!(statuses, [200, 429, 200, 200]);
}

#[tokio::test]
async fn routes_have_their_plans() {
    let (limiter, plans) = plans();
    let gold = plans.get("gold").unwrap();
    let layer = layer_of([for_all(limiter).plan(move |head| {
        let route = head.extensions.get::<MatchedPath>().map(MatchedPath::as_str);
        (route == Some("/files/{id}")).then(|| gold.clone())
    })]);
    let app = Router::new()
        .route("/files/{id}", get(|| async { "file" }))
        .route("/users/{id}", get(|| async { "user" }))
        .layer(layer);
    let mut statuses = Vec::new();
    for path in ["/files/1", "/users/1", "/files/2", "/files/3", "/files/4"] {
        let request = Request::builder().uri(path).body(body::Body::empty()).unwrap();
        statuses.push(app.clone().oneshot(request).await.unwrap().status().as_u16());
    }
    assert_eq!(statuses, [200, 429, 200, 200, 429]);
}

#[tokio::test]
async fn a_closure_returns_the_quota_of_each_customer() {
    let (limiter, _) = limiter(Quota::per_hour(1));
    // As many quotas as customers: a real program would fill a cache from its database.
    let own = Plan::new(limiter.clone());
    let acme = own.with_policy(&gcra("acme", 3)).unwrap();
    let rule = by_address(limiter)
        .plan(move |head| head.headers.contains_key("acme").then(|| acme.clone()));
    let service = layer_of([rule]).layer(service_fn(hello));
    let mut statuses = Vec::new();
    for _ in 0..4 {
        let mut request = request_from("192.0.2.1");
        request.headers_mut().insert("acme", "yes".parse().unwrap());
        statuses.push(send(&service, request).await.status().as_u16());
    }
    assert_eq!(statuses, [200, 200, 200, 429]);
}

#[tokio::test]
async fn a_plan_through_a_pointer_has_the_same_states() {
    let (limiter, _) = limiter(Quota::per_hour(2));
    let shared: Arc<dyn limiter_core::Limiter> = Arc::new(limiter.clone());
    let plans = Plans::new(shared, [gcra("gold", 5)]).unwrap();
    let gold = plans.get("gold").unwrap();
    let service =
        layer_of([for_all(limiter).plan(move |_| Some(gold.clone()))]).layer(service_fn(hello));
    assert_eq!(crate::statuses(&service, 6).await, [200, 200, 200, 200, 200, 429]);
}

/// As an admin page shows the quota of a tier.
#[tokio::test]
async fn a_rule_under_a_plan_shows_the_plans_policy() {
    let (limiter, plans) = plans();
    let rule = for_all(limiter.clone());
    let gold = rule.under(&plans.get("gold").unwrap());
    let all = "all".into();
    assert_eq!((gold.name(), gold.policy()), ("default", gcra("gold", 3)));
    drop(gold.check(&all).await.unwrap());
    let usage = gold.peek(&all).await.unwrap();
    assert_eq!((usage.used(), usage.remaining()), (1, 2));
    assert_eq!(rule.peek(&all).await.unwrap().remaining(), 0);
    assert_eq!(rule.policy().name(), "default");
    // The rule's own policy changes; that of the plan stays.
    gold.set_policy(&gcra("default", 9)).unwrap();
    assert_eq!((rule.policy(), gold.policy()), (gcra("default", 9), gcra("gold", 3)));
}
