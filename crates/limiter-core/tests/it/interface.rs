//! The traits: the same program whichever limiter is behind them.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use allocation_counter::measure;
use futures::executor::block_on;
use limiter_core::{
    Answer, Cost, Decision, Error, ErrorKind, Key, Limiter, ManualClock, MemoryLimiter, Policy,
    Receipt, Reservation, Source, Usage, WaitingLimiter,
};

fn memory(policy: Policy) -> (Arc<dyn WaitingLimiter>, ManualClock) {
    let clock = ManualClock::new();
    (Arc::new(MemoryLimiter::new(policy).unwrap().with_clock(clock.clone())), clock)
}

fn policy(text: &str) -> Policy {
    Policy::parse("test", text).unwrap()
}

fn cost(permits: u64) -> Cost {
    Cost::new(permits).unwrap()
}

/// Returns what is there already.
fn at_once<T>(mut answer: Answer<T>) -> T {
    answer.take_ready().unwrap().unwrap()
}

fn poll<T>(answer: &mut Answer<T>) -> Poll<Result<T, Error>> {
    pin!(answer).poll(&mut Context::from_waker(Waker::noop()))
}

/// By whatever points to it.
fn charges_looks_settles_and_forgets(limiter: &dyn Limiter) {
    let key = Key::from("alice");
    assert!(at_once(limiter.check(&key, cost(4))).is_admitted());
    assert_eq!(at_once(limiter.peek(&key)).remaining(), 6);
    assert!(!at_once(limiter.reserve(&key, cost(7), Duration::ZERO)).decision().is_admitted());
    let reserved = at_once(limiter.reserve(&key, cost(6), Duration::ZERO));
    assert_eq!(reserved.delay(), Some(Duration::ZERO));
    at_once(limiter.refund(reserved.into_receipt().unwrap().keep(1)));
    assert_eq!(at_once(limiter.peek(&key)).remaining(), 5);
    let later = at_once(limiter.reserve(&key, cost(6), Duration::from_secs(60)));
    assert!(later.delay() > Some(Duration::ZERO));
    at_once(limiter.reset(&key));
    assert_eq!(at_once(limiter.peek(&key)).remaining(), 10);
}

#[test]
fn every_pointer_passes_every_operation_on() {
    let limiter = || MemoryLimiter::new(policy("10/min")).unwrap().with_clock(ManualClock::new());
    charges_looks_settles_and_forgets(&limiter());
    charges_looks_settles_and_forgets(&Arc::new(limiter()));
    charges_looks_settles_and_forgets(&Box::new(limiter()));
    let shared: Arc<dyn Limiter> = Arc::new(limiter());
    charges_looks_settles_and_forgets(&shared);
    let boxed: Box<dyn WaitingLimiter> = Box::new(Arc::new(limiter()));
    charges_looks_settles_and_forgets(&boxed);
    let acquired = block_on(boxed.acquire(&"bob".into(), Cost::ONE, None)).unwrap();
    assert!(acquired.decision().is_admitted());
}

#[test]
fn a_tier_by_the_trait_shares_its_debts() {
    let premium = Policy::parse("premium", "100/min").unwrap();
    let (free, _) = memory(policy("10/min").with_tier(premium).unwrap());
    let premium = free.tier("premium").unwrap();
    assert_eq!((free.policy().name(), premium.policy().name()), ("test", "premium"));
    let key = Key::from("alice");
    assert!(at_once(premium.check(&key, cost(5))).is_admitted());
    assert_eq!(at_once(free.peek(&key)).remaining(), 5);
    assert_eq!(free.tier("gold").err().unwrap().kind(), ErrorKind::InvalidName);
}

#[test]
fn a_policy_is_replaced_by_the_trait() {
    let (limiter, _) = memory(policy("10/min by sliding-log"));
    let key = Key::from("alice");
    assert!(at_once(limiter.check(&key, cost(5))).is_admitted());
    limiter.replace(policy("20/min by sliding-log")).unwrap();
    assert_eq!(at_once(limiter.peek(&key)).remaining(), 15);
    let error = limiter.replace(policy("20/min")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidSetting);
    assert_eq!(limiter.policy(), policy("20/min by sliding-log"));
}

#[test]
fn those_who_wait_come_in_order_and_those_who_leave_make_room() {
    let (limiter, clock) = memory(policy("1/s"));
    let key = Key::from("alice");
    assert!(at_once(limiter.check(&key, Cost::ONE)).is_admitted());
    let join = || {
        let mut answer = limiter.acquire(&key, Cost::ONE, None);
        assert!(poll(&mut answer).is_pending());
        answer
    };
    let (first, mut second, mut third) = (join(), join(), join());
    // The fourth would have its turn after four seconds.
    let too_late = limiter.acquire(&key, Cost::ONE, Some(Duration::from_secs(3)));
    assert!(!block_on(too_late).unwrap().decision().is_admitted());
    drop(first);
    clock.advance(Duration::from_secs(1));
    assert!(!at_once(limiter.check(&key, Cost::ONE)).is_admitted(), "someone overtakes");
    assert!(poll(&mut third).is_pending());
    let Poll::Ready(Ok(reservation)) = poll(&mut second) else { panic!("the second waits on") };
    assert_eq!(reservation.delay(), Some(Duration::ZERO));
    clock.advance(Duration::from_secs(1));
    assert!(poll(&mut third).is_ready());
}

#[test]
fn what_can_never_fit_is_not_waited_for() {
    let (limiter, _) = memory(policy("1/s"));
    let never = block_on(limiter.acquire(&"alice".into(), cost(2), None)).unwrap();
    assert_eq!(never.decision().retry_after(), None);
}

#[test]
fn a_limiter_in_memory_answers_without_allocating() {
    let (limiter, _) = memory(policy("10/min"));
    let key = Key::from("alice");
    // Its table is made when it is first used.
    at_once(limiter.reset(&key));
    let allocations = measure(|| {
        assert!(at_once(limiter.check(&key, Cost::ONE)).is_admitted());
        let reserved = at_once(limiter.reserve(&key, cost(5), Duration::ZERO));
        at_once(limiter.refund(reserved.into_receipt().unwrap()));
        assert_eq!(at_once(limiter.peek(&key)).remaining(), 9);
        at_once(limiter.reset(&key));
    });
    assert_eq!(allocations.count_total, 0);
}

#[test]
fn an_answer_is_given_once() {
    let mut ready = Answer::ready(Ok(7));
    assert_eq!(format!("{ready:?}"), "Ready(Some(Ok(7)))");
    assert_eq!(ready.take_ready().unwrap().unwrap(), 7);
    assert!(ready.take_ready().is_none() && poll(&mut ready).is_pending());

    let mut pending = Answer::pending(async { Ok(7) });
    assert_eq!(format!("{pending:?}"), "Pending");
    assert!(pending.take_ready().is_none());
    assert_eq!(block_on(pending).unwrap(), 7);
}

/// A store's limiter that knows by a token what it has given out.
#[test]
fn a_store_makes_reservations_of_its_own() {
    #[derive(Debug, PartialEq)]
    struct Token(&'static str);

    let usage = Usage::new(10, 4, Duration::from_secs(6));
    let (delay, admitted) = (Duration::from_secs(1), Decision::admitted(usage));
    let reservation = Reservation::admitted(admitted, delay, Receipt::of_store(Token("a"), 6));
    assert_eq!((reservation.decision(), reservation.delay()), (admitted, Some(delay)));
    let receipt = reservation.into_receipt().unwrap().keep(2);
    assert_eq!((receipt.token(), receipt.permits()), (Some(&Token("a")), 4));
    assert_eq!(receipt.token::<&str>(), None);
    assert_eq!(receipt.keep(5).permits(), 0);

    let refused = Decision::refused(usage, None);
    let reservation = Reservation::refused(refused);
    assert_eq!((reservation.decision(), reservation.delay()), (refused, None));
    assert!(reservation.into_receipt().is_none());
}

#[test]
fn a_decision_tells_where_it_comes_from() {
    let (limiter, _) = memory(policy("1/s"));
    for _ in 0..2 {
        let decision = at_once(limiter.check(&"alice".into(), Cost::ONE));
        assert_eq!(decision.source(), Source::Store);
        for source in [Source::Remembered, Source::Local, Source::Failure, Source::Store] {
            let told = decision.with_source(source);
            assert_eq!(told.source(), source);
            assert_eq!(told == decision, source == Source::Store);
        }
    }
}
