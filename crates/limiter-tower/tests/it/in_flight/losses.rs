//! Permits that are lost, and those that are held too long.

use std::{
    future::pending,
    sync::{Arc, Mutex},
    task::Poll,
    time::Duration,
};

use http::{Request, StatusCode};
use limiter_core::ManualClock;
use limiter_tower::{
    InFlightRule,
    in_flight::{HoldGuard, PermitLost},
};

use super::{
    Counter, Events, behind, empty, never, next, permit_of, rule, rule_of, send, start, two_frames,
};
use crate::{Body, poll_once};

const HOUR: Duration = Duration::from_secs(3600);

fn losable(limit: u32) -> (InFlightRule, Counter) {
    let counter = Counter::new("uploads", limit).losable();
    (rule_of(&counter), counter)
}

#[tokio::test]
async fn a_strict_request_that_loses_its_permit_before_its_answer_is_503() {
    let (rule, counter) = losable(1);
    let (rule, events) = Events::of(rule.strict());
    let (dropped, is_dropped) = std::sync::mpsc::channel::<()>();
    let dropped = Arc::new(dropped);
    let service = behind(&rule, move |_| {
        let dropped = Arc::clone(&dropped);
        async move {
            let _sender = dropped;
            pending().await
        }
    });
    let mut request = start(&service);
    drop(service);
    counter.lose();
    let response = poll_once(request.as_mut()).unwrap().unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(!response.headers().contains_key("retry-after"));
    assert!(is_dropped.try_recv().is_err(), "the handler does not run any more");
    assert_eq!((rule.held(), events.take()), (0, vec!["allowed", "lost"]));
}

#[tokio::test]
async fn a_loss_wakes_the_task_that_waits_for_the_answer() {
    let (rule, counter) = losable(1);
    let service = behind(&rule.strict(), never);
    let response = tokio::spawn(async move { send(&service).await.status() });
    while counter.held() == 0 {
        tokio::task::yield_now().await;
    }
    counter.lose();
    assert_eq!(response.await.unwrap(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn a_strict_body_ends_with_an_error_and_never_clean() {
    let (rule, counter) = losable(1);
    let (rule, events) = Events::of(rule.strict());
    let mut body = send(&behind(&rule, two_frames)).await.into_body();
    assert!(matches!(next(&mut body), Poll::Ready(Some(Ok(_)))));
    counter.lose();
    let Poll::Ready(Some(Err(error))) = next(&mut body) else { panic!("an error") };
    assert!(error.is::<PermitLost>());
    assert_eq!(error.to_string(), "the request has lost its permit while its response was sent");
    assert!(!http_body::Body::is_end_stream(&body));
    assert_eq!((rule.held(), events.take()), (0, vec!["allowed", "lost"]));
}

#[tokio::test]
async fn a_process_that_was_stopped_does_not_continue_with_a_lost_permit() {
    let (rule, counter) = losable(2);
    let rule = rule.strict();
    let mut body = send(&behind(&rule, two_frames)).await.into_body();
    let mut request = start(&behind(&rule, never));
    counter.stop();
    assert!(matches!(next(&mut body), Poll::Ready(Some(Err(_)))));
    let response = poll_once(request.as_mut()).unwrap().unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn a_request_that_is_not_strict_continues_and_its_loss_is_reported_once() {
    let (rule, counter) = losable(1);
    let (rule, events) = Events::of(rule);
    let mut response = send(&behind(&rule, two_frames)).await;
    counter.lose();
    assert!(matches!(next(response.body_mut()), Poll::Ready(Some(Ok(_)))));
    assert_eq!(events.take(), ["allowed", "lost"]);
    assert!(matches!(next(response.body_mut()), Poll::Ready(Some(Ok(_)))));
    drop(response);
    assert_eq!((rule.held(), events.take()), (0, vec![]));
}

#[tokio::test]
async fn a_permit_of_a_shadow_that_is_lost_ends_nothing() {
    let (rule, counter) = losable(1);
    let rule = rule.strict().with_mode(limiter_tower::rule::Mode::SHADOW);
    let mut response = send(&behind(&rule, two_frames)).await;
    counter.lose();
    for _ in 0..2 {
        assert!(matches!(next(response.body_mut()), Poll::Ready(Some(Ok(_)))));
    }
    assert!(matches!(next(response.body_mut()), Poll::Ready(None)));
}

#[tokio::test]
async fn what_a_handler_holds_learns_of_the_loss() {
    let (rule, counter) = losable(1);
    let guard = rule.enter("job").await.unwrap();
    let mut lost = Box::pin(guard.lost());
    assert!(poll_once(lost.as_mut()).is_none() && !guard.is_lost());
    counter.lose();
    assert!(poll_once(lost.as_mut()).is_some() && guard.is_lost());
}

/// Returns a rule whose permits count for an hour, and its clock.
fn for_an_hour() -> (InFlightRule, Counter, ManualClock) {
    let (rule, counter) = rule(1);
    let clock = ManualClock::new();
    (rule.max_age_by(clock.clone(), HOUR), counter, clock)
}

#[tokio::test]
async fn a_permit_that_nobody_ends_stops_counting_once_the_limit_is_full() {
    let (rule, counter, clock) = for_an_hour();
    let (rule, events) = Events::of(rule);
    let leaked: Arc<Mutex<Vec<HoldGuard>>> = Arc::default();
    let guards = Arc::clone(&leaked);
    let service = behind(&rule, move |request: Request<Body>| {
        guards.lock().unwrap().push(permit_of(&request).hold().unwrap());
        empty(request)
    });
    drop(send(&service).await);
    clock.advance(HOUR - Duration::from_nanos(1));
    assert_eq!(send(&service).await.status(), StatusCode::TOO_MANY_REQUESTS);
    clock.advance(Duration::from_nanos(1));
    assert_eq!((counter.held(), rule.held()), (1, 1), "nobody needs its place");
    assert_eq!(send(&service).await.status(), StatusCode::OK);
    assert_eq!((counter.held(), rule.held()), (1, 1));
    assert_eq!(events.take(), ["allowed", "denied", "held_too_long", "allowed"]);
    // The second one has its own hour.
    assert_eq!(send(&service).await.status(), StatusCode::TOO_MANY_REQUESTS);
    let is_lost: Vec<_> = leaked.lock().unwrap().iter().map(HoldGuard::is_lost).collect();
    assert_eq!(is_lost, [true, false]);
    leaked.lock().unwrap().clear();
    assert_eq!((counter.held(), rule.held()), (0, 0));
}

#[tokio::test]
async fn only_the_permits_of_the_key_that_is_full_stop_counting() {
    let (rule, counter, clock) = for_an_hour();
    let others: Vec<_> = [rule.enter("a").await.unwrap(), rule.enter("b").await.unwrap()].into();
    clock.advance(HOUR);
    let third = rule.enter("b").await.unwrap();
    let is_lost: Vec<_> = others.iter().map(HoldGuard::is_lost).collect();
    assert_eq!((is_lost, counter.held()), (vec![false, true], 2));
    drop((others, third));
    assert_eq!((counter.held(), rule.held()), (0, 0));
}

#[tokio::test]
async fn an_age_ends_a_strict_request_when_it_is_polled_and_no_other() {
    for is_strict in [false, true] {
        let (rule, _counter, clock) = for_an_hour();
        let rule = if is_strict { rule.strict() } else { rule };
        let service = behind(&rule, never);
        let mut request = start(&service);
        clock.advance(HOUR);
        assert!(poll_once(request.as_mut()).is_none(), "nobody needs its place");
        let _second = start(&service);
        let answer = poll_once(request.as_mut());
        let status = answer.map(|response| response.unwrap().status().as_u16());
        assert_eq!(status, is_strict.then_some(503));
    }
}
