//! A rule that waits, beside others.

use std::{future::Future, pin::Pin, time::Duration};

use http::{Response, StatusCode};
use limiter_core::{Block, Limiter, ManualClock, MemoryLimiter, Policy, Quota};
use limiter_test::deferred::Deferred;
use limiter_tower::{
    ClientIp, RateLimitLayer, Rule,
    key::FixedKey,
    observe::Decisions,
    rule::{Mode, OnStoreFailure, Strike, Wait},
};
use tower::{Layer, ServiceExt, service_fn};

use crate::{
    Body, Served, by_address, for_all, header, hello, layer_of, limiter_of, poll_once,
    request_from, send, store::Store,
};

const ONE_SECOND: Duration = Duration::from_secs(1);

type Memory = MemoryLimiter<ManualClock>;
type Call = Pin<Box<dyn Future<Output = Result<Response<Body>, std::convert::Infallible>>>>;

/// Returns a rule of one request a second for each address, under which others wait for ten seconds at most. Returns its
/// limiter and its clock, too.
fn waiting() -> (Rule, Memory, ManualClock) {
    let (limiter, clock) = limiter_of(Policy::gcra("waiting", Quota::per_second(1)));
    let wait = Wait::up_to(ONE_SECOND * 10);
    (Rule::waiting(limiter.clone(), ClientIp::peer(), wait), limiter, clock)
}

/// Returns a limiter for all requests.
fn global(permits: u64) -> Memory {
    limiter_of(Policy::gcra("global", Quota::per_hour(permits))).0
}

fn used(waiting: &Memory, global: &Memory) -> (u64, u64) {
    (waiting.peek(std::net::Ipv4Addr::new(192, 0, 2, 1)).used(), global.peek("all").used())
}

/// Sends a request, and polls it once.
async fn start(service: &(impl Served<Future: 'static> + 'static)) -> Call {
    let mut call: Call = Box::pin(service.clone().oneshot(request_from("192.0.2.1")));
    assert!(poll_once(call.as_mut()).is_none());
    call
}

#[tokio::test]
async fn nothing_else_is_charged_while_a_request_waits_and_then_the_rest_is() {
    for in_store in [false, true] {
        let ((rule, limiter, clock), global) = (waiting(), global(9));
        let other = match in_store {
            true => for_all(Store::new(global.clone())),
            false => for_all(global.clone()),
        };
        // The rule that waits is the last one asked, wherever it is listed.
        let service = layer_of([rule.clone(), other.clone()]).layer(service_fn(hello));
        assert_eq!(send(&service, request_from("192.0.2.1")).await.status(), 200);
        assert_eq!(used(&limiter, &global), (1, 1));

        let mut call = start(&service).await;
        for _ in 0..5 {
            assert!(poll_once(call.as_mut()).is_none());
        }
        assert_eq!(used(&limiter, &global), (1, 1), "in a store: {in_store}");
        clock.advance(ONE_SECOND);
        let response = call.await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(used(&limiter, &global), (1, 2), "in a store: {in_store}");
        let decisions = response.extensions().get::<Decisions>().unwrap();
        let waited = [&rule, &other].map(|it| decisions.of(it).unwrap().waited().is_some());
        assert_eq!(waited, [true, false]);
    }
}

#[tokio::test]
async fn a_waiters_permits_are_back_if_another_rule_refuses_after_the_wait() {
    let ((rule, limiter, clock), global) = (waiting(), global(2));
    let service = layer_of([rule, for_all(global.clone())]).layer(service_fn(hello));
    assert_eq!(send(&service, request_from("192.0.2.1")).await.status(), 200);
    let call = start(&service).await;
    // Meanwhile the last permit is taken by another client.
    assert_eq!(send(&service, request_from("192.0.2.2")).await.status(), 200);
    assert_eq!(used(&limiter, &global), (1, 2));
    clock.advance(ONE_SECOND);
    let refused = call.await.unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(header(refused.headers(), "ratelimit"), Some("\"global\";r=0;t=1800"));
    assert_eq!(header(refused.headers(), "retry-after"), Some("1800"));
    assert_eq!(used(&limiter, &global), (0, 2));
}

/// It was admitted, although the key was blocked.
#[tokio::test]
async fn a_key_that_is_blocked_while_its_request_waits_is_refused() {
    let ((rule, limiter, clock), global) = (waiting(), global(9));
    let block = Block::after(1).within(ONE_SECOND * 60).lasting(ONE_SECOND * 60);
    let rule = rule.block_by_response(block, |_| Strike::Ignore).unwrap();
    let service = layer_of([rule.clone(), for_all(global.clone())]).layer(service_fn(hello));
    let key = limiter_core::Key::from(std::net::Ipv4Addr::new(192, 0, 2, 1));
    let admission = rule.check(&key).await.unwrap();
    let call = start(&service).await;
    admission.strike();
    clock.advance(ONE_SECOND);
    let refused = call.await.unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(header(refused.headers(), "retry-after"), Some("59"));
    assert!(refused.extensions().get::<Decisions>().unwrap().of(&rule).unwrap().is_blocked());
    assert_eq!(used(&limiter, &global), (0, 0));
}

#[tokio::test]
async fn a_request_that_another_rule_refuses_too_does_not_wait() {
    let ((rule, limiter, clock), global) = (waiting(), global(1));
    let service = layer_of([rule, for_all(global.clone())]).layer(service_fn(hello));
    assert_eq!(send(&service, request_from("192.0.2.1")).await.status(), 200);
    let refused = send(&service, request_from("192.0.2.1")).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    let fields = "\"global\";r=0;t=3600, \"waiting\";r=0;t=3600";
    assert_eq!(header(refused.headers(), "ratelimit"), Some(fields));
    assert_eq!((used(&limiter, &global), clock.next_wake()), ((1, 1), None));
}

/// With several stores, the first refusal is the only answer. The request waited if that was by the rule that waits, and
/// was then refused by a rule that had no permits before, either: seed 37366304006772 of the simulation with services.
#[tokio::test]
async fn a_request_that_a_rule_in_another_store_refuses_too_does_not_wait() {
    for own_is_in_store in [false, true] {
        let ((mut rule, limiter, clock), global) = (waiting(), global(1));
        let mut rules = vec![for_all(Store::new(global.clone()))];
        if own_is_in_store {
            // The store of the client's own key is called first, for the rule that waits, too.
            let store = Deferred::new(limiter.clone());
            let own = Policy::gcra("own", Quota::per_hour(9));
            rules.push(by_address(Limiter::sibling(&store, &own).unwrap()));
            rule = Rule::waiting(store, ClientIp::peer(), Wait::up_to(ONE_SECOND * 10));
        }
        rules.push(rule.clone());
        let service = RateLimitLayer::all(rules).decisions().layer(service_fn(hello));
        assert_eq!(send(&service, request_from("192.0.2.1")).await.status(), 200);
        let mut call: Call = Box::pin(service.clone().oneshot(request_from("192.0.2.1")));
        let answers = (0..20).find_map(|_| poll_once(call.as_mut()));
        let refused = answers.expect("the request waits").unwrap();
        let case = format!("own is in store: {own_is_in_store}");
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS, "{case}");
        let refusing = refused.extensions().get::<Decisions>().unwrap();
        let waited = refusing.of(&rule).unwrap().waited();
        assert_eq!(waited, None, "{case}");
        assert_eq!((used(&limiter, &global), clock.next_wake()), ((1, 1), None), "{case}");
    }
}

#[tokio::test]
async fn a_waiter_that_is_dropped_charges_no_rule() {
    let ((rule, limiter, clock), global) = (waiting(), global(9));
    let service = layer_of([rule, for_all(global.clone())]).layer(service_fn(hello));
    assert_eq!(send(&service, request_from("192.0.2.1")).await.status(), 200);
    drop(start(&service).await);
    clock.advance(ONE_SECOND * 2);
    assert_eq!((used(&limiter, &global), clock.next_wake()), ((0, 1), None));
}

#[tokio::test]
async fn a_shadow_is_asked_after_the_wait() {
    let ((rule, limiter, clock), global) = (waiting(), global(9));
    let shadow = for_all(global.clone()).with_mode(Mode::SHADOW);
    let service = layer_of([shadow, rule]).layer(service_fn(hello));
    assert_eq!(send(&service, request_from("192.0.2.1")).await.status(), 200);
    let call = start(&service).await;
    assert_eq!(used(&limiter, &global), (1, 1));
    clock.advance(ONE_SECOND);
    assert_eq!(call.await.unwrap().status(), 200);
    assert_eq!(used(&limiter, &global), (1, 2));
}

/// If a store fails, each rule is asked alone, and those before the one that waits have charged when it refuses.
#[tokio::test]
async fn a_rule_beside_one_that_waits_and_one_whose_store_fails_is_charged_once() {
    for waits_in_store in [false, true] {
        let ((mut rule, limiter, clock), global) = (waiting(), global(9));
        if waits_in_store {
            let wait = Wait::up_to(ONE_SECOND * 10);
            rule = Rule::waiting(Deferred::new(limiter.clone()), ClientIp::peer(), wait);
        }
        let failing = Deferred::new(limiter_of(Policy::gcra("failing", Quota::per_hour(9))).0);
        failing.set_failing(true);
        let failing = Rule::new(failing, FixedKey::new("failing"));
        let service = layer_of([rule, for_all(global.clone()), failing]).layer(service_fn(hello));
        assert_eq!(send(&service, request_from("192.0.2.1")).await.status(), 200);
        assert_eq!(used(&limiter, &global), (1, 1), "in a store: {waits_in_store}");
        let mut call = start(&service).await;
        for _ in 0..20 {
            assert!(poll_once(call.as_mut()).is_none());
        }
        assert_eq!(used(&limiter, &global), (1, 1), "in a store: {waits_in_store}");
        clock.advance(ONE_SECOND);
        assert_eq!(call.await.unwrap().status(), 200);
        assert_eq!(used(&limiter, &global), (1, 2), "in a store: {waits_in_store}");
    }
}

#[tokio::test]
async fn a_store_that_fails_while_a_request_waits_acts_for_its_rule_alone() {
    for (choice, status, charged) in
        [(OnStoreFailure::Allow, 200, 2), (OnStoreFailure::Deny, 503, 1)]
    {
        let ((_, limiter, _), global) = (waiting(), global(9));
        let wait = Wait::up_to(ONE_SECOND * 10);
        let rule = Rule::waiting(Store::new(limiter.clone()), ClientIp::peer(), wait);
        let rules = [rule.on_store_failure(choice), for_all(global.clone())];
        let service = layer_of(rules).layer(service_fn(hello));
        assert_eq!(send(&service, request_from("192.0.2.1")).await.status(), 200);
        assert_eq!(used(&limiter, &global), (1, 1));
        let response = send(&service, request_from("192.0.2.1")).await;
        assert_eq!(response.status(), status);
        // A request that is forwarded has asked the other rule, and was charged by it.
        assert_eq!(used(&limiter, &global), (1, charged), "{choice:?}");
    }
}
