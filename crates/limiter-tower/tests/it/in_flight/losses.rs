//! Permits that are lost, and those that are held too long.

use std::{
    future::pending,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use http::{Request, StatusCode};
use limiter_core::{Key, ManualClock};
use limiter_tower::{
    InFlightRule,
    in_flight::{HoldGuard, PermitLost},
    key::FixedKey,
};

use super::{
    Counter, Events, behind, empty, never, next, permit_of, rule, send, start, two_frames,
};
use crate::{Body, poll_once};

const HOUR: Duration = Duration::from_secs(3600);

fn losable(limit: u32) -> (InFlightRule, Counter) {
    let counter = Counter::new("uploads", limit).losable();
    (InFlightRule::new(counter.clone(), FixedKey::new("all")), counter)
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
    let guard = rule.enter(&Key::from("job")).await.unwrap();
    let mut lost = Box::pin(guard.lost());
    assert!(poll_once(lost.as_mut()).is_none() && !guard.is_lost());
    counter.lose();
    assert!(poll_once(lost.as_mut()).is_some() && guard.is_lost());
}

/// Returns a rule that holds at most an hour, its clock, and its tasks.
fn at_most_an_hour() -> (InFlightRule, Counter, ManualClock) {
    let (rule, counter) = rule(1);
    let clock = ManualClock::new();
    let spawn = |task: Pin<Box<dyn Future<Output = ()> + Send>>| drop(tokio::spawn(task));
    (rule.max_hold_on(clock.clone(), HOUR).spawn_by(spawn), counter, clock)
}

async fn settle() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_permit_that_nobody_ends_is_given_back_after_the_longest_hold() {
    let (rule, counter, clock) = at_most_an_hour();
    let (rule, events) = Events::of(rule);
    let leaked: Arc<Mutex<Vec<HoldGuard>>> = Arc::default();
    let guards = Arc::clone(&leaked);
    let service = behind(&rule, move |request: Request<Body>| {
        guards.lock().unwrap().push(permit_of(&request).hold().unwrap());
        empty(request)
    });
    drop(send(&service).await);
    settle().await;
    clock.advance(HOUR - Duration::from_nanos(1));
    settle().await;
    assert_eq!((counter.held(), events.take()), (1, vec!["allowed"]));
    clock.advance(Duration::from_nanos(1));
    settle().await;
    assert_eq!((counter.held(), rule.held()), (0, 0));
    assert!(leaked.lock().unwrap()[0].is_lost());
    leaked.lock().unwrap().clear();
    assert_eq!((rule.held(), events.take()), (0, vec!["held_too_long"]));
}

#[tokio::test]
async fn the_longest_hold_ends_a_strict_request_and_no_other() {
    for is_strict in [false, true] {
        let (rule, counter, clock) = at_most_an_hour();
        let rule = if is_strict { rule.strict() } else { rule };
        let service = behind(&rule, never);
        let mut request = start(&service);
        settle().await;
        clock.advance(HOUR);
        settle().await;
        assert_eq!(counter.held(), 0);
        let answer = poll_once(request.as_mut());
        assert_eq!(
            answer.map(|response| response.unwrap().status().as_u16()),
            is_strict.then_some(503)
        );
    }
}

#[tokio::test]
async fn the_longest_hold_wakes_the_request_and_what_a_handler_holds() {
    let (rule, _counter, clock) = at_most_an_hour();
    let guard = rule.enter(&Key::from("job")).await.unwrap();
    let service = behind(&rule.strict(), never);
    let response = tokio::spawn(async move { send(&service).await.status() });
    let lost = tokio::spawn(guard.lost());
    settle().await;
    assert!(!response.is_finished() && !lost.is_finished());
    clock.advance(HOUR);
    settle().await;
    assert!(response.is_finished() && lost.is_finished());
    assert_eq!(response.await.unwrap(), StatusCode::SERVICE_UNAVAILABLE);
}

struct Task;

impl Wake for Task {
    fn wake(self: Arc<Self>) {}
}

/// A future that moves among tasks is polled by another waker each time.
#[tokio::test]
async fn a_watcher_keeps_its_last_waker_alone() {
    let (rule, _counter, _clock) = at_most_an_hour();
    let guard = rule.enter(&Key::from("job")).await.unwrap();
    let tasks: Vec<_> = (0..1_000).map(|_| Arc::new(Task)).collect();
    let kept = || tasks.iter().filter(|task| Arc::strong_count(task) > 1).count();
    let mut lost = [Box::pin(guard.lost()), Box::pin(guard.lost())];
    for task in &tasks {
        let waker = Waker::from(Arc::clone(task));
        for lost in &mut lost {
            assert!(lost.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
    }
    assert_eq!(kept(), 1);
    drop(lost);
    assert_eq!(kept(), 0);
}

#[tokio::test]
async fn a_request_that_ends_ends_its_longest_hold() {
    let (rule, counter, clock) = at_most_an_hour();
    let service = behind(&rule, two_frames);
    for _ in 0..100 {
        let response = send(&service).await;
        settle().await;
        assert!(clock.next_wake().is_some());
        drop(response);
        settle().await;
        assert_eq!((counter.held(), clock.next_wake()), (0, None));
    }
}

#[tokio::test]
async fn the_longest_hold_needs_no_setting_on_tokio() {
    let (rule, counter) = rule(1);
    let rule = rule.max_hold(Duration::from_millis(1));
    let _response = send(&behind(&rule, two_frames)).await;
    let given_back = async {
        while counter.held() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), given_back).await.unwrap();
}
