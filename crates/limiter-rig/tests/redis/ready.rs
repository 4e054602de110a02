//! Callers without a runtime, and endpoints that report whether a service is ready.

use std::time::{Duration, Instant};

use limiter_core::{Cost, ErrorKind};
use limiter_redis::{CallError, ConnectOptions, Fault, connect, connect_with};
use limiter_rig::server::{Cluster, Server};
use tokio::{net::TcpListener, time::timeout};

use crate::{builder, eventually, patient};

#[test]
fn a_thread_without_a_runtime_checks() {
    let server = Server::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limiter = runtime.block_on(patient(&server.url(), 2));
    let admitted = [(); 3].map(|()| limiter.check("key").wait().unwrap().is_admitted());
    assert_eq!(admitted, [true, true, false]);
    let never = limiter.check_n("other", Cost::of(3)).wait().unwrap();
    assert_eq!((never.is_admitted(), never.retry_after()), (false, None));

    assert_eq!(limiter.take_up_to("batch", Cost::of(5)).wait().unwrap().permits(), 2);
    assert_eq!(limiter.charge("batch", Cost::of(2)).wait().unwrap().permits(), 2);

    // A thread of a connection that stalls holds up no caller for longer than the deadline.
    server.pause();
    let limiter = runtime.block_on(builder(2).connect(&server.url())).unwrap();
    assert!(limiter.check("key").wait().is_err());
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
    // A call may get its error before the connection is known to be lost.
    eventually("it is not connected", async || !connection.is_connected()).await;
    server.restart();
    eventually("it is connected", async || connection.is_connected()).await;

    let cluster = Cluster::start();
    let connection = connect(&cluster.url()).await.unwrap();
    assert!(connection.is_connected());
    connection.ping(Duration::from_secs(5)).await.unwrap();
    cluster.node(1).pause();
    let error = connection.ping(Duration::from_millis(100)).await.unwrap_err();
    assert!(error.to_string().contains(&cluster.node(1).port().to_string()), "{error}");
    cluster.node(1).resume();
}

/// Once a service whose server was not there started all the same, and could not choose otherwise.
#[tokio::test]
async fn a_required_connection_that_is_not_made_in_time_is_an_error() {
    let mut server = Server::start();
    server.kill();
    let options = ConnectOptions::new().with_required_connection(Duration::from_millis(300));
    let port = server.port();
    for url in [
        server.url(),
        format!("redis-cluster://127.0.0.1:{port}"),
        format!("redis-sentinel://127.0.0.1:{port}?sentinelServiceName=main"),
    ] {
        let start = Instant::now();
        let error = connect_with(&url, &options).await.unwrap_err();
        assert!(start.elapsed() >= Duration::from_millis(300), "{url}: {:?}", start.elapsed());
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert_eq!(CallError::of(&error).unwrap().fault(), Fault::NotSent);
        let message = error.to_string();
        assert!(message.contains("300ms") && message.contains("Connection refused"), "{message}");
    }
    // It is not an error without the option.
    connect(&server.url()).await.unwrap();

    let url = server.url();
    let options = ConnectOptions::new().with_required_connection(crate::GIVE_UP_AFTER);
    // The first attempts fail: something else at its port closes them.
    let other = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    let connecting = tokio::spawn(async move { connect_with(&url, &options).await });
    for _ in 0..2 {
        drop(timeout(crate::GIVE_UP_AFTER, other.accept()).await.unwrap().unwrap());
    }
    drop(other);
    server.restart();
    assert!(connecting.await.unwrap().unwrap().is_connected());

    // It accepts connections, and does not reply.
    server.pause();
    let options = ConnectOptions::new().with_name("other");
    let options = options.with_required_connection(Duration::from_millis(300));
    let error = connect_with(&server.url(), &options).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

/// A user without the right to run scripts once passed, and a layer of 2 requests a minute then forwarded all.
#[tokio::test]
async fn a_required_connection_may_run_the_scripts() {
    let server = Server::start();
    let user = |name: &str, rights: &str| {
        let words = format!("ACL SETUSER {name} on >secret {rights}");
        server.command(&words.split(' ').collect::<Vec<_>>()).unwrap();
        server.url().replace("redis://", &format!("redis://{name}:secret@"))
    };
    let options = ConnectOptions::new().with_required_connection(Duration::from_millis(300));
    for (name, rights, denied) in [
        ("plain", "~* +@all -eval -evalsha", "eval"),
        ("reader", "~* +@all -hset", "HSET"),
        ("other", "~other:* +@all -eval", "eval"),
    ] {
        let error = connect_with(&user(name, rights), &options).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains(denied), "{name}: {error}");
    }
    for (name, rights) in [("all", "~* +@all"), ("prefix", "~other:* +@all")] {
        let _ = connect_with(&user(name, rights), &options).await.unwrap();
    }
    assert_eq!(server.command(&["DBSIZE"]).unwrap(), ":0");
}
