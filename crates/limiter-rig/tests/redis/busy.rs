//! Busy workers of the caller's runtime, and the thread on which a connection runs instead.

use std::{
    future::IntoFuture as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::Poll,
    time::Duration,
};

use futures::poll;
use limiter_core::{Cost, ErrorKind, Policy};
use limiter_redis::{RedisLimiter, connect};
use limiter_rig::server::{self, Server};
use tokio::runtime;

use crate::{PATIENT, builder, connect_here, eventually};

/// The task that makes a call was once on the worker's own queue, behind the task that computes, with
/// the checks of all workers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_computes_beside_its_check_delays_no_other_check() {
    let limiter = builder(1_000_000).prefix("busy").deadline(PATIENT);
    let limiter = limiter.connect(&server::shared_url()).await.unwrap();
    let _ = crate::recover(&limiter).await;
    for operation in ["check", "reserve"] {
        let [begun, over] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let (one, begins, ends) = (limiter.clone(), Arc::clone(&begun), Arc::clone(&over));
        let busy = tokio::spawn(async move {
            let compute = async {
                begins.store(true, Relaxed);
                while !ends.load(Relaxed) {
                    std::hint::spin_loop();
                }
            };
            match operation {
                "check" => drop(tokio::join!(one.check("busy"), compute)),
                _ => drop(tokio::join!(one.reserve("busy", Cost::ONE, PATIENT), compute)),
            }
        });
        eventually("it computes", async || begun.load(Relaxed)).await;
        let mut others = Vec::new();
        for _ in 0..20 {
            others.push(tokio::spawn(limiter.check("other").into_future()).await.unwrap());
        }
        over.store(true, Relaxed);
        busy.await.unwrap();
        assert!(others.iter().all(Result::is_ok), "{operation}: {others:?}");
    }
}

/// Returns how many connections limiters have.
fn connections(server: &Server) -> usize {
    server.command(&["CLIENT", "LIST"]).unwrap().matches(" name=limiter ").count()
}

#[tokio::test]
async fn a_connection_and_its_thread_end_with_the_last_handle() {
    let server = Server::start();
    let client = connect(&server.url()).await.unwrap();
    let limiter = RedisLimiter::builder(Policy::parse("test", "3/day").unwrap());
    let limiter = limiter.deadline(Duration::from_secs(5)).build_on(client).unwrap();
    let handle = limiter.with_policy(&Policy::parse("other", "5/day").unwrap()).unwrap();
    drop(limiter);
    // A handle keeps it, and a call that was begun is not cut off by its end.
    assert!(handle.check("key").await.unwrap().is_admitted());
    assert_eq!(connections(&server), 1);
    let mut check = handle.reserve("key", Cost::ONE, Duration::ZERO);
    let polled = poll!(&mut check);
    drop(handle);
    let check = if let Poll::Ready(done) = polled { done } else { check.await };
    assert!(check.unwrap().is_admitted());
    eventually("no connection stays", async || connections(&server) == 0).await;
}

#[test]
fn a_connection_whose_runtime_ended_leaves_no_check_waiting() {
    let one_thread = || runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (connected, caller, server) = (one_thread(), one_thread(), Server::start());
    let connection = connected.block_on(connect_here(&server.url()));
    let limiter = builder(3).deadline(PATIENT).build_on(connection).unwrap();
    let mut queued = limiter.check("key");
    caller.block_on(async { assert!(poll!(&mut queued).is_pending()) });
    drop(connected);
    for check in [queued, limiter.check("key"), limiter.check("key")] {
        assert_eq!(caller.block_on(check).unwrap_err().kind(), ErrorKind::Undetermined);
    }
}
