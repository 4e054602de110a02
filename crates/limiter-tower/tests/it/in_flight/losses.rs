//! Permits that are lost, and those that are held too long.

use std::{future::pending, sync::mpsc, task::Poll};

use limiter_tower::in_flight::{HoldGuard, PermitLost};

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

fn losable(limit: u32) -> (InFlightRule, Counter) {
    let counter = Counter::new("uploads", limit).losable();
    (rule_of(&counter), counter)
}

/// Before its answer, and within its body.
#[tokio::test]
async fn a_loss_ends_a_strict_request_and_no_other() {
    type Lose = fn(&Counter);
    let rows: [(&str, bool, Mode, Lose, bool); 4] = [
        ("strict", true, Mode::ENFORCE, Counter::lose, true),
        // Nothing was woken.
        ("strict, in a process that was stopped", true, Mode::ENFORCE, Counter::stop, true),
        ("not strict", false, Mode::ENFORCE, Counter::lose, false),
        ("a shadow", true, Mode::SHADOW, Counter::lose, false),
    ];
    for (case, is_strict, mode, lose, ends) in rows {
        let losing = || {
            let (rule, counter) = losable(1);
            let rule = if is_strict { rule.strict() } else { rule };
            let (rule, events) = Events::of(rule.with_mode(mode));
            (rule, counter, events)
        };
        let (rule, counter, events) = losing();
        let (sender, handler) = mpsc::channel::<()>();
        let sender = Arc::new(sender);
        let service = behind(&rule, move |_| {
            let sender = Arc::clone(&sender);
            async move {
                let _sender = sender;
                pending().await
            }
        });
        let mut request = start(&service);
        drop(service);
        lose(&counter);
        let response = poll_once(request.as_mut()).map(Result::unwrap);
        let status = response.as_ref().map(|response| response.status().as_u16());
        assert_eq!(status, ends.then_some(503), "{case}");
        let has_ended = handler.try_recv() == Err(mpsc::TryRecvError::Disconnected);
        assert_eq!(has_ended, ends, "{case}: the handler");
        if let Some(response) = response {
            assert!(!response.headers().contains_key("retry-after"), "{case}");
            assert_eq!((rule.held(), events.take()), (0, vec!["allowed", "lost"]), "{case}");
        }

        let (rule, counter, events) = losing();
        let mut body = send(&behind(&rule, two_frames)).await.into_body();
        assert!(matches!(next(&mut body), Poll::Ready(Some(Ok(_)))), "{case}");
        lose(&counter);
        match next(&mut body) {
            Poll::Ready(Some(Err(error))) if ends => {
                assert!(error.is::<PermitLost>(), "{case}");
                let text = "the request has lost its permit while its response was sent";
                assert_eq!(error.to_string(), text, "{case}");
                // Never clean.
                assert!(!http_body::Body::is_end_stream(&body), "{case}");
            }
            Poll::Ready(Some(Ok(_))) if !ends => {
                assert!(matches!(next(&mut body), Poll::Ready(None)), "{case}");
            }
            other => panic!("{case}: {other:?}"),
        }
        let reported = events.take();
        assert!(mode == Mode::SHADOW || reported == ["allowed", "lost"], "{case}: {reported:?}");
        drop(body);
        assert_eq!((rule.held(), events.take()), (0, vec![]), "{case}");
    }
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
    assert_eq!(response.await.unwrap(), 503);
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
    assert_eq!(send(&service).await.status(), 429);
    clock.advance(Duration::from_nanos(1));
    assert_eq!((counter.held(), rule.held()), (1, 1), "nobody needs its place");
    assert_eq!(send(&service).await.status(), StatusCode::OK);
    assert_eq!((counter.held(), rule.held()), (1, 1));
    assert_eq!(events.take(), ["allowed", "denied", "held_too_long", "allowed"]);
    // The second one has its own hour.
    assert_eq!(send(&service).await.status(), 429);
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

#[tokio::test]
async fn an_outer_rule_counts_no_strike_for_a_permit_that_was_lost() {
    let counter = Counter::new("uploads", 1).losable();
    let block = Block::after(1).within(HOUR).lasting(HOUR);
    let login = by_address(hourly("login", 9)).block_by_response(block, |_| Strike::Count).unwrap();
    let inner = behind(&rule_of(&counter).strict(), never);
    let service = RateLimitLayer::all([login.clone()]).any_body().layer(inner);
    let mut call = Box::pin(service.oneshot(request()));
    assert!(poll_once(call.as_mut()).is_none());
    counter.lose();
    let response = poll_once(call.as_mut()).unwrap().unwrap();
    assert_eq!(response.status(), 503);
    let request = request();
    let blocked = login.blocked_for(&login.key(&request).unwrap()).await.unwrap();
    assert_eq!(blocked, Duration::ZERO);
}

/// Returns a rule of one request at once, whose permits count for an hour.
fn aged() -> (InFlightRule, ManualClock) {
    let clock = ManualClock::new();
    (rule(1).0.max_age_by(clock.clone(), HOUR), clock)
}

#[tokio::test]
async fn a_request_that_ends_late_leaves_the_age_of_the_next_one_alone() {
    let (rule, clock) = aged();
    let first = rule.enter("a").await.unwrap();
    clock.advance(HOUR);
    let _second = rule.enter("a").await.unwrap();
    assert!(first.is_lost());
    drop(first);
    clock.advance(HOUR);
    assert!(rule.enter("a").await.is_ok(), "the second permit counts for ever");
}

#[tokio::test]
async fn who_holds_a_permit_for_too_long_is_told() {
    let (rule, clock) = aged();
    let first = rule.enter("a").await.unwrap();
    let told = tokio::spawn(first.lost());
    tokio::task::yield_now().await;
    assert!(!told.is_finished());
    clock.advance(HOUR);
    let _second = rule.enter("a").await.unwrap();
    told.await.unwrap();
    first.lost().await;
}

#[tokio::test]
async fn the_oldest_permit_leaves_a_full_table() {
    let clock = ManualClock::new();
    let limiter = limiter_core::InFlight::builder("uploads", 1).capacity(1).build().unwrap();
    let rule = InFlightRule::new(limiter, FixedKey::new("all")).max_age_by(clock.clone(), HOUR);
    let leaked = rule.enter("a").await.unwrap();
    assert!(rule.enter("b").await.is_err(), "the table is full");
    clock.advance(HOUR);
    assert!(rule.enter("b").await.is_ok());
    assert!(leaked.is_lost());
}
