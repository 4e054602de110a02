//! Connections that are lost or hang: they are made anew, and nothing is charged twice or late.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use futures::future::join_all;
use limiter_core::ErrorKind;
use limiter_rig::server::Server;
use tokio::time::sleep;

use crate::{builder, connect_here, eventually, patient, recover};

/// Connections once ended for good when the server died while the client's queue was full.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_against_a_stopped_server_that_dies_is_survived() {
    let mut server = Server::start();
    let limiter = builder(1_000_000).build_on(connect_here(&server.url()).await).unwrap();
    let _ = recover(&limiter).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();

    server.pause();
    let over = AtomicBool::new(false);
    let flood = join_all((0..2_000).map(async |_| {
        while !over.load(Ordering::Relaxed) {
            if limiter.check("key").await.is_err() {
                sleep(Duration::from_millis(10)).await;
            }
        }
    }));
    let end = async {
        sleep(Duration::from_secs(3)).await;
        over.store(true, Ordering::Relaxed);
    };
    tokio::join!(flood, end);
    server.restart();

    let (decision, _) = recover(&limiter).await;
    assert!(decision.is_admitted());
    // The connections that were given up leave nothing behind.
    eventually("no more tasks than before", async || tasks() <= before).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_that_was_dropped_while_disconnected_is_never_charged() {
    let mut server = Server::start();
    let limiter = patient(&server.url(), 1_000).await;
    let _ = recover(&limiter).await;
    assert!(server.command(&["SHUTDOWN", "NOSAVE"]).is_err(), "it ends without an answer");
    let check = || limiter.check("key");
    while check().await.map_err(|error| error.kind()) != Err(ErrorKind::Unavailable) {}
    for _ in 0..50 {
        let _ = tokio::time::timeout(Duration::from_micros(100), check()).await;
    }
    server.restart();
    let (decision, _) = recover(&limiter).await;
    assert_eq!(decision.remaining(), 999, "{decision:?}");
}
