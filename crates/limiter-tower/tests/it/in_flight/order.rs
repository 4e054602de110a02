//! In which order rates and limits on requests in flight are asked, and what a refusal leaves behind.

use std::{
    pin::Pin,
    sync::{Arc, Mutex},
};

use http::{Request, StatusCode};
use limiter_core::{Cost, Limiter, ManualClock, MemoryLimiter, Policy, Quota};
use limiter_test::deferred::Deferred;
use limiter_tower::{
    InFlightRule, RateLimitLayer, Rule,
    key::{FixedKey, HeaderKey, MaybeKey},
    observe::{Decisions, InFlightDecision},
    rule::{Keep, Mode, Wait},
};

use super::{Counter, Events, behind_layer, empty, rule, send, start, two_frames};
use crate::{Body, for_all, limiter_of, poll_once};

const TEN: Quota = Quota::per_hour(10);

fn rate() -> (Rule, MemoryLimiter<ManualClock>) {
    let limiter = limiter_of(Policy::gcra("api", TEN)).0;
    (for_all(limiter.clone()), limiter)
}

fn used(limiter: &MemoryLimiter<ManualClock>) -> u64 {
    limiter.peek("all").used()
}

fn in_flight_of(counter: &Counter) -> InFlightRule {
    InFlightRule::new(counter.clone(), FixedKey::new("all"))
}

#[tokio::test]
async fn a_full_limit_charges_no_rate() {
    for (is_slow, admitted, refused) in [
        (false, vec!["peek", "enter"], vec!["peek"]),
        // The rate is charged first, and refunded.
        (true, vec!["enter"], vec!["enter"]),
    ] {
        let (api, limiter) = rate();
        let counter = Counter::new("uploads", 1);
        let counter = if is_slow { counter.slow() } else { counter };
        let layer = RateLimitLayer::all([api]).in_flight(in_flight_of(&counter));
        let service = behind_layer(&layer, two_frames);
        let first = send(&service).await;
        assert_eq!((first.status(), used(&limiter)), (StatusCode::OK, 1));
        assert_eq!(counter.calls(), admitted);
        assert_eq!(send(&service).await.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!((used(&limiter), counter.calls()), (1, refused));
        drop(first);
        assert_eq!(send(&service).await.status(), StatusCode::OK);
        assert_eq!(used(&limiter), 2);
    }
}

/// Else a client that resets its requests would call the store without a limit.
#[tokio::test]
async fn a_store_is_not_called_for_a_client_whose_rate_is_used_up() {
    let (api, limiter) = rate();
    let counter = Counter::new("uploads", 1).slow();
    let layer = RateLimitLayer::all([api]).in_flight(in_flight_of(&counter));
    let service = behind_layer(&layer, two_frames);
    for _ in 0..10 {
        // Dropped while the store is asked.
        drop(start(&service));
    }
    assert_eq!(used(&limiter), 10);
    counter.calls();
    assert_eq!(send(&service).await.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!((counter.calls(), counter.held()), (vec![], 0));
}

#[tokio::test]
async fn a_rate_that_refuses_holds_nothing() {
    let (api, limiter) = rate();
    assert!(limiter.check_n("all", Cost::of(10)).is_admitted());
    let (uploads, events) = Events::of(rule(1).0);
    let layer = RateLimitLayer::all([api]).in_flight(uploads.clone());
    let response = send(&behind_layer(&layer, two_frames)).await;
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(response.headers().contains_key("retry-after"));
    assert_eq!((uploads.held(), events.take()), (0, vec![]));
}

#[tokio::test]
async fn a_race_for_the_last_permit_refunds_the_rates() {
    for is_slow in [false, true] {
        let limiter = limiter_of(Policy::gcra("api", TEN)).0;
        let store = Deferred::new(limiter.clone());
        let api = if is_slow { for_all(store) } else { for_all(limiter.clone()) };
        let counter = Counter::new("uploads", 1).raced();
        let layer = RateLimitLayer::all([api]).in_flight(in_flight_of(&counter));
        let service = behind_layer(&layer, two_frames);
        let first = send(&service).await;
        counter.calls();
        let refused = send(&service).await;
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        assert!(!refused.headers().contains_key("retry-after"));
        // The peek found room, and another request was faster.
        assert_eq!(counter.calls(), ["peek", "enter"]);
        // A refund to a store is sent by a task.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!((used(&limiter), counter.held()), (1, 1));
        drop(first);
    }
}

#[tokio::test]
async fn a_race_gives_back_what_other_limits_have_taken() {
    let (first, second) = (Counter::new("first", 5), Counter::new("second", 1));
    let layer =
        RateLimitLayer::only_in_flight(in_flight_of(&first)).in_flight(in_flight_of(&second));
    let service = behind_layer(&layer, two_frames);
    let response = send(&service).await;
    assert_eq!((first.held(), second.held()), (1, 1));
    assert_eq!(send(&service).await.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!((first.held(), second.held()), (1, 1));
    // Without rates there is nothing to spare, so nothing is peeked.
    assert_eq!(first.calls(), ["enter", "enter"]);
    drop(response);
    assert_eq!((first.held(), second.held()), (0, 0));
}

#[tokio::test]
async fn permits_are_given_back_before_rates_are_settled() {
    let held = Arc::new(Mutex::new(Vec::new()));
    let uploads = rule(1).0;
    let (seen, observed) = (Arc::clone(&held), uploads.clone());
    let (api, limiter) = rate();
    let api = api.settle(move |_| {
        seen.lock().unwrap().push(observed.held());
        Keep::None
    });
    let layer = RateLimitLayer::all([api]).in_flight(uploads);
    send(&behind_layer(&layer, empty)).await;
    assert_eq!((held.lock().unwrap().as_slice(), used(&limiter)), (&[0][..], 0));
}

#[tokio::test]
async fn settled_fields_still_name_the_limit_in_flight() {
    let layer = RateLimitLayer::all([rate().0.settle(|_| Keep::None)]).in_flight(rule(3).0);
    let response = send(&behind_layer(&layer, two_frames)).await;
    let policies = r#""api";q=10;w=3600, "uploads";q=3;qu="concurrent-requests""#;
    assert_eq!(response.headers()["ratelimit-policy"], policies);
    assert!(response.headers()["ratelimit"].to_str().unwrap().ends_with(r#", "uploads";r=2"#));
}

#[tokio::test]
async fn a_request_that_waits_for_a_rate_holds_no_permit() {
    let (limiter, clock) = limiter_of(Policy::gcra("api", Quota::per_second(1)));
    let wait = Wait::up_to(std::time::Duration::from_secs(5)).queue(1);
    let api = Rule::waiting(limiter.clone(), FixedKey::new("all"), wait);
    let (uploads, counter) = rule(5);
    let layer = RateLimitLayer::all([api]).in_flight(uploads);
    let service = behind_layer(&layer, two_frames);
    drop(send(&service).await);
    let mut waiting = start(&service);
    assert!(format!("{waiting:?}").contains("Waiting"), "{waiting:?}");
    assert_eq!(counter.held(), 0);
    clock.advance(std::time::Duration::from_secs(1));
    let response = poll_once(waiting.as_mut()).unwrap().unwrap();
    assert_eq!((response.status(), counter.held()), (StatusCode::OK, 1));
}

#[tokio::test]
async fn a_missing_key_is_rejected_before_anything_is_charged() {
    let (api, limiter) = rate();
    let counter = Counter::new("uploads", 1);
    let user = HeaderKey::new(http::HeaderName::from_static("x-user")).verified().or_reject();
    let (uploads, events) = Events::of(InFlightRule::new(counter.clone(), user));
    let layer = RateLimitLayer::all([api]).in_flight(uploads);
    let response = send(&behind_layer(&layer, two_frames)).await;
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    assert_eq!((used(&limiter), counter.calls()), (0, vec![]));
    assert_eq!(events.take(), ["rejected"]);
}

#[tokio::test]
async fn a_key_that_may_be_absent_leaves_its_limit_out() {
    let user = HeaderKey::new(http::HeaderName::from_static("x-user")).verified().or_skip();
    let counter = Counter::new("uploads", 1);
    let (uploads, events) = Events::of(InFlightRule::new(counter.clone(), user));
    let service = behind_layer(&RateLimitLayer::only_in_flight(uploads), two_frames);
    let response = send(&service).await;
    assert_eq!((response.status(), counter.calls()), (StatusCode::OK, vec![]));
    assert!(!response.headers().contains_key("ratelimit"));
    assert_eq!(events.take(), ["bypassed"]);
}

#[tokio::test]
async fn a_shadow_counts_and_refuses_nothing() {
    let (uploads, counter) = rule(1);
    let (uploads, events) = Events::of(uploads.with_mode(Mode::SHADOW));
    let (api, limiter) = rate();
    let layer = RateLimitLayer::all([api]).in_flight(uploads.clone()).decisions();
    let service = behind_layer(&layer, |request: Request<Body>| {
        let decisions = request.extensions().get::<Decisions>().unwrap();
        assert!(decisions.in_flight().all(InFlightDecision::is_shadow));
        two_frames(request)
    });
    let responses = [send(&service).await, send(&service).await];
    assert!(responses.iter().all(|response| response.status() == StatusCode::OK));
    assert!(!responses[1].headers()["ratelimit-policy"].to_str().unwrap().contains("uploads"));
    assert_eq!((uploads.held(), used(&limiter)), (1, 2));
    let decisions = responses[1].extensions().get::<Decisions>().unwrap();
    assert!(!uploads.decision_in(decisions).unwrap().is_admitted());
    assert_eq!(events.take(), ["allowed", "shadow_denied"]);
    // It is asked last, so there is nothing to spare by a peek.
    assert_eq!(counter.calls(), ["enter", "enter"]);
    drop(responses);
    assert_eq!(uploads.held(), 0);
    // Enforced while requests are served.
    uploads.set_mode(Mode::ENFORCE);
    let layer = RateLimitLayer::only_in_flight(uploads);
    let service = behind_layer(&layer, two_frames);
    let _first = send(&service).await;
    assert_eq!(send(&service).await.status(), StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn a_store_that_fails_forwards_by_default_and_else_answers_503() {
    use limiter_tower::rule::OnStoreFailure;
    for (choice, status, outcome, charged) in [
        (OnStoreFailure::Allow, StatusCode::OK, "error_allowed", 1),
        (OnStoreFailure::Deny, StatusCode::SERVICE_UNAVAILABLE, "error_denied", 0),
    ] {
        let (api, limiter) = rate();
        let counter = Counter::new("uploads", 1).slow().failing();
        let (uploads, events) = Events::of(in_flight_of(&counter).on_store_failure(choice));
        let layer = RateLimitLayer::all([api]).in_flight(uploads);
        let service = behind_layer(&layer, two_frames);
        assert_eq!(send(&service).await.status(), status);
        assert_eq!((counter.calls(), events.take()), (vec!["enter"], vec![outcome]));
        assert_eq!(used(&limiter), charged);
    }
}

#[tokio::test]
async fn a_layer_that_is_off_or_skips_counts_nothing() {
    let (uploads, events) = Events::of(rule(1).0);
    let layer =
        RateLimitLayer::only_in_flight(uploads.clone()).skip(|head| head.path() == "/health");
    let service = behind_layer(&layer, two_frames);
    let mut request = Request::new(Body::default());
    *request.uri_mut() = "/health".parse().unwrap();
    let response = tower::ServiceExt::oneshot(service.clone(), request).await.unwrap();
    assert_eq!((response.status(), uploads.held()), (StatusCode::OK, 0));
    layer.switch_off();
    let responses = [send(&service).await, send(&service).await];
    assert!(responses.iter().all(|response| response.status() == StatusCode::OK));
    layer.switch_on();
    let counted = send(&service).await;
    assert_eq!((counted.status(), uploads.held()), (StatusCode::OK, 1));
    assert_eq!(events.take(), ["bypassed", "bypassed", "bypassed", "allowed"]);
}

#[tokio::test]
async fn a_service_that_fails_to_become_ready_refunds_and_gives_back() {
    // After a delay, the service is a clone that is polled ready anew.
    #[derive(Clone)]
    struct Once(bool);
    impl tower::Service<Request<Body>> for Once {
        type Response = http::Response<Body>;
        type Error = &'static str;
        type Future = std::future::Ready<Result<Self::Response, Self::Error>>;
        fn poll_ready(
            &mut self,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Result<(), Self::Error>> {
            std::task::Poll::Ready(if self.0 { Err("not ready") } else { Ok(()) })
        }
        fn call(&mut self, _: Request<Body>) -> Self::Future {
            std::future::ready(Ok(http::Response::default()))
        }
    }
    let (limiter, clock) = limiter_of(Policy::gcra("api", Quota::per_second(1)));
    let wait = Wait::up_to(std::time::Duration::from_secs(5)).queue(1);
    let api = Rule::waiting(limiter.clone(), FixedKey::new("all"), wait);
    let (uploads, counter) = rule(5);
    let layer = RateLimitLayer::all([api]).in_flight(uploads);
    assert!(limiter.check("all").is_admitted());
    let mut service = tower::Layer::layer(&layer, Once(true));
    let mut waiting: Pin<Box<_>> =
        Box::pin(tower::Service::call(&mut service, Request::new(Body::default())));
    assert!(poll_once(waiting.as_mut()).is_none());
    clock.advance(std::time::Duration::from_secs(1));
    assert_eq!(poll_once(waiting.as_mut()).unwrap().map(|_| ()).unwrap_err(), "not ready");
    drop(waiting);
    assert_eq!((counter.calls(), counter.held()), (vec!["peek", "enter"], 0));
    assert!(Limiter::check(&limiter, &"all".into()).await.unwrap().is_admitted(), "refunded");
}

#[tokio::test]
async fn a_store_that_fails_is_reported_although_a_limit_in_flight_refuses() {
    let log = limiter_rig::log::Log::start();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let rate_events = Arc::clone(&seen);
    let failing = Deferred::new(limiter_of(Policy::gcra("api", TEN)).0);
    failing.set_failing(true);
    let limiter = limiter_of(Policy::gcra("shadow", TEN)).0;
    let shadow = for_all(limiter.clone()).with_mode(Mode::SHADOW);
    let api = Rule::new(failing, FixedKey::new("api"));
    let (first, first_events) =
        Events::of(in_flight_of(&Counter::new("first", 9).slow().failing()));
    let (full, full_events) = Events::of(in_flight_of(&Counter::new("full", 0).slow()));
    let layer =
        RateLimitLayer::all([api, shadow]).in_flight(first).in_flight(full).observe(move |event| {
            rate_events.lock().unwrap().push((event.rule.to_owned(), event.outcome.name()));
        });
    let refused = send(&behind_layer(&layer, two_frames)).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(seen.lock().unwrap().as_slice(), [("api".to_owned(), "error_allowed")]);
    assert_eq!((first_events.take(), full_events.take()), (vec!["error_allowed"], vec!["denied"]));
    assert_eq!(used(&limiter), 0);
    assert_eq!(log.lines().len(), 2, "{:?}", log.lines());
}
