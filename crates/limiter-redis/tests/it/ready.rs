//! Callers without a runtime, and endpoints that report whether a service is ready.

use std::time::{Duration, Instant};

use limiter_core::{Cost, ErrorKind};
use limiter_redis::{Fault, connect};
use limiter_rig::server::{Cluster, Server};
use tokio::time::sleep;

use crate::{builder, patient};

#[test]
fn a_thread_without_a_runtime_checks() {
    let server = Server::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limiter = runtime.block_on(patient(&server.url(), 2));
    let admitted = [(); 3].map(|()| limiter.check_blocking("key").unwrap().is_admitted());
    assert_eq!(admitted, [true, true, false]);
    let never = limiter.check_n_blocking("other", Cost::new(3).unwrap()).unwrap();
    assert_eq!((never.is_admitted(), never.retry_after()), (false, None));

    let error = runtime.block_on(async { limiter.check_blocking("key") }).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidSetting);
    assert!(error.to_string().contains("await `check`"), "{error}");

    // A thread of a connection that stalls holds up no caller for longer than the deadline.
    server.pause();
    let limiter = runtime.block_on(builder(&server.url(), 2)).build().unwrap();
    assert!(limiter.check_blocking("key").is_err());
    server.resume();
}

#[tokio::test]
async fn a_connection_says_whether_it_is_ready() {
    let mut server = Server::start();
    let connection = connect(&server.url()).await.unwrap();
    assert!(connection.is_connected());
    connection.ping(Duration::from_secs(5)).await.unwrap();
    server.kill();
    let error = connection.ping(Duration::from_secs(1)).await.unwrap_err();
    assert!(matches!(error.fault(), Fault::NotSent | Fault::NoReply), "{error}");
    // The error may arrive a moment before the state.
    let start = Instant::now();
    while connection.is_connected() {
        assert!(start.elapsed() < Duration::from_secs(5));
        sleep(Duration::from_millis(1)).await;
    }
    let start = Instant::now();
    server.restart();
    while !connection.is_connected() {
        assert!(start.elapsed() < Duration::from_secs(5));
        sleep(Duration::from_millis(5)).await;
    }

    let cluster = Cluster::start();
    let connection = connect(&cluster.url()).await.unwrap();
    assert!(connection.is_connected());
    connection.ping(Duration::from_secs(5)).await.unwrap();
    cluster.node(1).pause();
    let error = connection.ping(Duration::from_millis(100)).await.unwrap_err();
    assert!(error.to_string().contains(&cluster.node(1).port().to_string()), "{error}");
    cluster.node(1).resume();
}
