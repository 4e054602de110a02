//! Waiting as a future that a runtime may move about.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::{Context, Poll, Waker},
    time::Instant,
};

use limiter_core::{Cost, MemoryLimiter, Policy, Quota, WaitingLimiter};

use super::{evenly, keyed, ms};

#[test]
fn who_waits_may_be_moved_between_threads() {
    fn may_be_moved(_: impl Send + Unpin + 'static) {}
    let (limiter, _) = keyed(evenly(10));
    may_be_moved(limiter.acquire("key", Cost::ONE, None));
}

/// It was once charged again by each poll, and then waited for ever.
#[test]
fn a_future_that_is_polled_after_it_was_ready_charges_nothing() {
    let (limiter, _) = keyed(Policy::gcra("test", Quota::per_second(10)));
    let mut context = Context::from_waker(Waker::noop());
    let mut acquire = limiter.acquire("key", Cost::ONE, None);
    assert!(acquire.as_mut().poll(&mut context).is_ready());
    let poll = AssertUnwindSafe(|| acquire.as_mut().poll(&mut context));
    assert!(catch_unwind(poll).is_err(), "like any async block");
    let waiting: &dyn WaitingLimiter = &limiter;
    let mut answer = waiting.acquire(&"key".into(), Cost::ONE, None);
    assert!(matches!(pin!(&mut answer).poll(&mut context), Poll::Ready(Ok(_))));
    assert!(matches!(pin!(&mut answer).poll(&mut context), Poll::Ready(Err(_))));
    assert_eq!(limiter.peek("key").remaining(), 8);
}

/// It does not check their order: two workers may run two tasks that are due in either order.
#[test]
fn tasks_on_a_runtime_are_admitted_within_the_rate() {
    const TASKS: u32 = 6;
    let limiter = MemoryLimiter::new(evenly(50));
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_time().build().unwrap();
    let start = Instant::now();
    let tasks: Vec<_> = (0..TASKS)
        .map(|index| {
            let mut acquire = limiter.acquire("key", Cost::ONE, None);
            // Polled here, so that they queue in this order.
            let first = runtime.block_on(async { futures::poll!(&mut acquire) });
            runtime.spawn(async move {
                let reservation = match first {
                    Poll::Ready(reservation) => reservation,
                    Poll::Pending => acquire.await,
                };
                assert!(reservation.is_admitted());
                let early = (ms(20) * index).saturating_sub(start.elapsed());
                assert!(early.is_zero(), "task {index} went {early:?} early");
            })
        })
        .collect();
    let brief = limiter.acquire("key", Cost::ONE, Some(ms(50)));
    assert!(!runtime.block_on(brief).is_admitted());
    runtime.block_on(async {
        for task in tasks {
            task.await.unwrap();
        }
    });
}
