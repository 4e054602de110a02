//! Connections that are lost or hang: they are made anew, and nothing is charged twice or late.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use limiter_core::{Cost, Limiter};
use limiter_test::server::Server;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    time::sleep,
};

use crate::{faults::recover, limiter};

/// Connections once ended for good when the server died while the client's queue was full.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_against_a_stopped_server_that_dies_is_survived() {
    let mut server = Server::start();
    let limiter = limiter(&server.url(), 5).await;
    let _ = recover(&limiter).await;

    server.pause();
    let over = AtomicBool::new(false);
    let flood = join_all((0..2_000).map(async |_| {
        while !over.load(Ordering::Relaxed) {
            if limiter.check(&"key".into(), Cost::ONE).await.is_err() {
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
}

/// A connection on which nothing came back was once kept for as long as there was traffic.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_hangs_is_given_up_for_a_new_one() {
    let server = Server::start();
    let proxy = Proxy::start(server.port()).await;
    let limiter = limiter(&proxy.url(), 1_000).await;
    let _ = recover(&limiter).await;
    assert_eq!(proxy.connections(), 1);

    proxy.hang();
    while limiter.check(&"key".into(), Cost::ONE).await.is_ok() {}
    let _ = recover(&limiter).await;
    assert_eq!(proxy.connections(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_that_was_dropped_while_disconnected_is_never_charged() {
    let mut server = Server::start();
    let limiter = limiter(&server.url(), 1_000).await;
    let _ = recover(&limiter).await;
    server.restart();
    // It has forgotten the first charge. The client has noticed once a check fails.
    while limiter.check(&"key".into(), Cost::ONE).await.is_ok() {}
    for _ in 0..50 {
        let check = limiter.check(&"key".into(), Cost::ONE);
        let _ = tokio::time::timeout(Duration::from_micros(100), check).await;
    }
    let (decision, _) = recover(&limiter).await;
    assert!(decision.remaining() >= 990, "{decision:?}");
}

/// Stands before a server; its first connection hangs when it is told to.
struct Proxy {
    port: u16,
    connections: Arc<AtomicU64>,
    hangs: Arc<AtomicBool>,
}

impl Proxy {
    async fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let proxy = Self { port, connections: Arc::default(), hangs: Arc::default() };
        let (connections, hangs) = (Arc::clone(&proxy.connections), Arc::clone(&proxy.hangs));
        tokio::spawn(async move {
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let is_first = connections.fetch_add(1, Ordering::Relaxed) == 0;
                let hangs = Arc::clone(&hangs);
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                    let hang = async {
                        while !(is_first && hangs.load(Ordering::Relaxed)) {
                            sleep(Duration::from_millis(1)).await;
                        }
                    };
                    tokio::select! {
                        _ = copy_bidirectional(&mut client, &mut server) => {}
                        // With both ends open, and nothing that goes through.
                        () = hang => std::future::pending().await,
                    }
                });
            }
        });
        proxy
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    fn hang(&self) {
        self.hangs.store(true, Ordering::Relaxed);
    }
}
