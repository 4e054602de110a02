//! No failure stays silent, and nothing that waits grows without bound.

use std::{
    future::pending,
    panic::{self, resume_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::Duration,
};

use futures::{executor::block_on, future::join_all, poll};
use limiter_core::{Cost, ErrorKind, Limiter as _, Source};
use limiter_redis::{CallError, ConnectOptions, Event, Fault, RedisLimiter, connect_with};
use limiter_rig::server::Server;
use tokio::runtime::{Builder, Handle};

use crate::{builder, daily, eventually, failures, patient, recover, shared};

/// Returns the runtime of a thread of its own, which runs until the test ends.
fn other_thread() -> Handle {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        send.send(runtime.handle().clone()).unwrap();
        runtime.block_on(pending::<()>());
    });
    receive.recv().unwrap()
}

/// Lets the thread of a runtime compute until the sender is dropped.
fn stall(runtime: &Handle) -> mpsc::Sender<()> {
    let (end, until) = mpsc::channel::<()>();
    let (begins, has_begun) = mpsc::channel();
    runtime.spawn(async move {
        begins.send(()).unwrap();
        let _ = until.recv();
    });
    has_begun.recv().unwrap();
    end
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_that_stalls_is_counted_and_reported_and_is_no_silence_of_the_server() {
    let server = Server::start();
    let runtime = other_thread();
    let options = ConnectOptions::new().with_runtime(runtime.clone());
    let connection = connect_with(&server.url(), &options).await.unwrap();
    let reports = Arc::new(AtomicU64::new(0));
    let of_observer = Arc::clone(&reports);
    let limiter = RedisLimiter::builder(daily(1_000)).observer(move |event| {
        of_observer.fetch_add(u64::from(event.name() == "unavailable"), Relaxed);
    });
    let limiter = limiter.build_on(connection).unwrap();
    let _ = recover(&limiter).await;
    let before = limiter.counters();

    let end = stall(&runtime);
    for failed in 1..=8 {
        let error = limiter.check("key").await.unwrap_err();
        let fault = CallError::of(&error).map(CallError::fault);
        assert_eq!(fault, Some(Fault::NoTime), "{error}");
        assert_eq!(limiter.counters().unavailable - before.unavailable, failed);
    }
    drop(end);
    // A busy runtime does not open the breaker.
    let _ = recover(&limiter).await;
    assert_eq!(limiter.counters().breaker_opened, before.breaker_opened);
    drop(limiter);
    eventually("the thread for blocking tasks runs", async || reports.load(Relaxed) >= 8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_that_no_thread_takes_up_are_bounded() {
    let server = Server::start();
    let runtime = other_thread();
    let options = ConnectOptions::new().with_runtime(runtime.clone());
    let connection = connect_with(&server.url(), &options).await.unwrap();
    let limiter = RedisLimiter::builder(daily(1_000)).deadline(Duration::from_secs(60));
    let limiter = limiter.build_on(connection).unwrap();
    let _ = recover(&limiter).await;

    let end = stall(&runtime);
    let mut waiting = Vec::new();
    let refused = loop {
        let mut check = Box::pin(limiter.check("key"));
        match poll!(&mut check) {
            std::task::Poll::Ready(refused) => break refused.unwrap_err(),
            std::task::Poll::Pending => waiting.push(check),
        }
        assert!(waiting.len() <= 65_536);
    };
    assert_eq!((refused.kind(), waiting.len()), (ErrorKind::Unavailable, 65_536));
    assert_eq!(CallError::of(&refused).unwrap().fault(), Fault::NotSent);
    // Callers that leave lose nothing: their checks are dropped once the thread continues.
    drop(waiting);
    drop(end);
    limiter.drain(Duration::from_secs(10)).await.unwrap();
    assert!(recover(&limiter).await.0.remaining() >= 990);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_observer_that_blocks_or_panics_harms_no_check() {
    let mut server = Server::start();
    server.kill();
    for blocks in [true, false] {
        let (end, until) = mpsc::channel::<()>();
        let until = Mutex::new(until);
        let observer = move |_: &Event| match blocks {
            true => drop(until.lock().unwrap().recv()),
            false => resume_unwind(Box::new(())),
        };
        let limiter = builder(1_000).observer(observer).connect(&server.url()).await.unwrap();
        let fallback = shared(&limiter, 1);
        // All at once, so that they fail before the circuit breaker opens.
        let checks = join_all((0..2_000).map(|_| fallback.check(&"key".into()))).await;
        assert!(checks.iter().all(|check| check.as_ref().unwrap().source() == Source::Local));
        assert_eq!(failures(&limiter), 2_000);
        assert!(!blocks || limiter.counters().unobserved > 0, "{:?}", limiter.counters());
        drop(end);
    }
}

/// Once it was an error, for which a panic was caught: with `panic = "abort"`, the process ended.
#[test]
fn answers_need_no_timers_of_the_caller() {
    static PANICS: AtomicU64 = AtomicU64::new(0);
    let (test, previous) = (thread::current().id(), panic::take_hook());
    panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(u64::from(thread::current().id() == test), Relaxed);
        previous(info);
    }));
    let server = Server::start();
    let limiter = block_on(patient(&server.url(), 10));
    let without_timers = Builder::new_current_thread().build().unwrap();
    without_timers.block_on(use_once(&limiter, 10));
    // Nor a runtime.
    block_on(use_once(&limiter, 7));
    server.pause();
    let early = block_on(builder(10).connect(&server.url())).unwrap();
    // No server replies, so it is the deadline that ends them.
    for error in [
        without_timers.block_on(early.check("key").into_future()).unwrap_err(),
        block_on(early.check("key").into_future()).unwrap_err(),
    ] {
        assert_ne!(error.kind(), ErrorKind::InvalidSetting, "{error}");
    }
    server.resume();
    assert_eq!(PANICS.load(Relaxed), 0);
}

/// Takes three permits of a key that has `left`.
async fn use_once(limiter: &RedisLimiter, left: u64) {
    assert_eq!(limiter.check("key").await.unwrap().remaining(), left - 1);
    let reserved = limiter.reserve("key", Cost::ONE, Duration::ZERO).await.unwrap();
    assert_eq!(reserved.decision().remaining(), left - 2);
    let acquired = limiter.acquire("key", Cost::ONE, None).await.unwrap();
    assert_eq!(acquired.decision().remaining(), left - 3);
    limiter.drain(Duration::from_secs(5)).await.unwrap();
}
