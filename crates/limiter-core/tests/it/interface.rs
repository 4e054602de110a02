//! The traits: one program for every limiter.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use crate::policy;
use allocation_counter::measure;
use futures::executor::block_on;
use limiter_core::{
    Cost, Decision, Error, ErrorKind, Key, Limiter, LimiterFuture, ManualClock, MemoryLimiter,
    Policy, Receipt, Reservation, Source, Usage, WaitingLimiter,
};

fn memory(policy: Policy) -> (Arc<dyn WaitingLimiter>, ManualClock) {
    let clock = ManualClock::new();
    (Arc::new(MemoryLimiter::builder(policy).clock(clock.clone()).build().unwrap()), clock)
}

/// Returns an answer that is ready.
fn ready<T>(mut answer: LimiterFuture<T>) -> T {
    answer.take_ready().unwrap().unwrap()
}

fn poll<T>(answer: &mut LimiterFuture<T>) -> Poll<Result<T, Error>> {
    pin!(answer).poll(&mut Context::from_waker(Waker::noop()))
}

fn performs_every_operation(limiter: &dyn Limiter) {
    let key = Key::from("alice");
    assert!(ready(limiter.check(&key)).is_admitted());
    assert!(ready(limiter.check_n(&key, Cost::of(3))).is_admitted());
    assert_eq!(ready(limiter.peek(&key)).remaining(), 6);
    assert!(!ready(limiter.reserve(&key, Cost::of(7), Duration::ZERO)).is_admitted());
    let reserved = ready(limiter.reserve(&key, Cost::of(6), Duration::ZERO));
    assert_eq!(reserved.delay(), Some(Duration::ZERO));
    assert_eq!(ready(limiter.refund(reserved.into_receipt().unwrap().keep(1))), 5);
    assert_eq!(ready(limiter.peek(&key)).remaining(), 5);
    let later = ready(limiter.reserve(&key, Cost::of(6), Duration::from_secs(60)));
    assert!(later.delay() > Some(Duration::ZERO));
    ready(limiter.reset(&key));
    assert_eq!(ready(limiter.peek(&key)).remaining(), 10);
    let premium = limiter.with_policy(&Policy::parse("premium", "100/min").unwrap()).unwrap();
    assert_eq!((limiter.policy().name(), premium.policy().name()), ("test", "premium"));
    assert!(ready(premium.check_n(&key, Cost::of(4))).is_admitted());
    // 4 of 100 are less than one of 10.
    assert_eq!(ready(limiter.peek(&key)).remaining(), 9);
    ready(limiter.reset(&key));
}

#[test]
fn every_pointer_forwards_every_operation() {
    let limiter =
        || MemoryLimiter::builder(policy("10/min")).clock(ManualClock::new()).build().unwrap();
    performs_every_operation(&limiter());
    let shared: Arc<dyn Limiter> = Arc::new(limiter());
    performs_every_operation(&shared);
    let boxed: Box<dyn Limiter> = Box::new(Arc::clone(&shared));
    performs_every_operation(&boxed);
    let waiting: Arc<dyn WaitingLimiter> = Arc::new(limiter());
    performs_every_operation(&waiting);
    let boxed: Box<dyn WaitingLimiter> = Box::new(waiting);
    performs_every_operation(&boxed);
    let acquired = block_on(boxed.acquire(&"bob".into(), Cost::ONE, None)).unwrap();
    assert!(acquired.is_admitted());
}

/// With the trait in scope, `check` of an `Arc` was that of the trait, which takes no `&str` and returns a future.
#[test]
fn a_pointer_to_a_limiter_in_memory_has_its_methods() {
    let limiter = Arc::new(MemoryLimiter::new(policy("2/h")));
    assert!(limiter.check("alice").is_admitted());
    let limiter = Box::new(Arc::clone(&limiter));
    assert!(limiter.check("alice").is_admitted());
    assert_eq!(limiter.peek("alice").remaining(), 0);
}

#[test]
fn a_handle_behind_the_trait_can_wait() {
    let (free, clock) = memory(policy("10/min"));
    let key = Key::from("alice");
    assert!(ready(free.check_n(&key, Cost::of(10))).is_admitted());
    let premium = Policy::parse("premium", "60/min").unwrap();
    let premium = free.waiting_with_policy(&premium).unwrap();
    let mut answer = premium.acquire(&key, Cost::ONE, None);
    assert!(poll(&mut answer).is_pending());
    clock.advance(Duration::from_secs(1));
    let Poll::Ready(Ok(reservation)) = poll(&mut answer) else { panic!("it is due") };
    assert!(reservation.is_admitted());
    let error = free.with_policy(&policy("10/min by sliding-log")).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidSetting);
}

/// The table was allocated by the first request, while other threads waited for it.
#[test]
fn a_limiter_in_memory_answers_without_allocating() {
    for text in ["10/min", "10/min by fixed-window", "10/min by sliding-counter"] {
        let (limiter, _) = memory(policy(text));
        let key = Key::from("alice");
        let allocations = measure(|| {
            assert!(ready(limiter.check(&key)).is_admitted());
            let reserved = ready(limiter.reserve(&key, Cost::of(5), Duration::ZERO));
            ready(limiter.refund(reserved.into_receipt().unwrap()));
            let taken = ready(limiter.take_up_to(&key, Cost::of(5)));
            ready(limiter.refund(taken.into_receipt().unwrap()));
            let charged = ready(limiter.charge(&key, Cost::of(5)));
            ready(limiter.refund(charged.into_receipt().unwrap()));
            assert_eq!(ready(limiter.peek(&key)).remaining(), 9);
            ready(limiter.reset(&key));
        });
        assert_eq!(allocations.count_total, 0, "{text}");
    }
}

#[test]
fn an_answer_is_ready_once() {
    let mut ready = LimiterFuture::ready(Ok(7));
    assert_eq!(format!("{ready:?}"), "Ready(Some(Ok(7)))");
    assert_eq!(*ready.as_ready().unwrap().as_ref().unwrap(), 7);
    assert_eq!(ready.take_ready().unwrap().unwrap(), 7);
    assert!(ready.as_ready().is_none() && ready.take_ready().is_none());

    let mut pending = LimiterFuture::pending(async { Ok(7) });
    assert_eq!(format!("{pending:?}"), "Pending");
    assert!(pending.as_ready().is_none() && pending.take_ready().is_none());
    assert!(matches!(poll(&mut pending), Poll::Ready(Ok(7))));
    // Each of these once waited for ever.
    let polled = [poll(&mut ready), poll(&mut ready), poll(&mut pending)];
    let polled = polled.map(|it| matches!(it, Poll::Ready(result) if is_taken(&result)));
    assert_eq!(polled, [true; 3]);
    assert!(is_taken(&ready.wait()) && is_taken(&pending.wait()));
}

fn is_taken(result: &Result<i32, Error>) -> bool {
    let error = result.as_ref().unwrap_err();
    let message = "the result of this operation was taken before: poll or take a future once";
    (error.kind(), error.to_string().as_str()) == (ErrorKind::Unexpected, message)
}

#[test]
fn a_store_issues_reservations_of_its_own() {
    #[derive(Debug, PartialEq)]
    struct Token(&'static str);

    let usage = Usage::new(10, 4, Duration::from_secs(6));
    let (delay, admitted) = (Duration::from_secs(1), Decision::admitted(usage));
    let reservation = Reservation::admitted(admitted, delay, Receipt::new(Token("a"), 6));
    assert_eq!((reservation.decision(), reservation.delay()), (admitted, Some(delay)));
    assert_eq!(reservation.permits(), 6);
    let receipt = reservation.into_receipt().unwrap().keep(2);
    assert_eq!((receipt.token(), receipt.permits()), (Some(&Token("a")), 4));
    assert_eq!(receipt.token::<&str>(), None);
    assert_eq!(receipt.keep(5).permits(), 0);

    let refused = Decision::refused(usage, None);
    let reservation = Reservation::refused(refused);
    assert_eq!((reservation.decision(), reservation.delay()), (refused, None));
    assert_eq!(reservation.permits(), 0);
    assert!(reservation.into_receipt().is_none());
}

#[test]
fn a_decision_reports_its_source() {
    let (limiter, _) = memory(policy("1/s"));
    for _ in 0..2 {
        let decision = ready(limiter.check(&"alice".into()));
        assert_eq!(decision.source(), Source::State);
        for source in [Source::Cache, Source::Local, Source::State] {
            let changed = decision.with_source(source);
            assert_eq!(changed.source(), source);
            assert_eq!(changed == decision, source == Source::State);
        }
    }
}
