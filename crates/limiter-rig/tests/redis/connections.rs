//! Connections that are lost or hang: they are made anew, and nothing is charged twice or late.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures::future::join_all;
use limiter_core::ErrorKind;
use limiter_rig::server::Server;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy, copy_bidirectional},
    net::{TcpListener, TcpStream},
    time::sleep,
};

use crate::{faults::recover, limiter, limiter_here, load_scripts, patient, timely};

/// Connections once ended for good when the server died while the client's queue was full.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_against_a_stopped_server_that_dies_is_survived() {
    timely(async || {
        let mut server = Server::start();
        let limiter = limiter_here(&server.url(), 5).await;
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
        let start = Instant::now();
        while tasks() > before && start.elapsed() < Duration::from_secs(10) {
            sleep(Duration::from_millis(5)).await;
        }
        assert!(tasks() <= before, "{} tasks, {before} before", tasks());
    })
    .await;
}

/// A connection without any reply was once kept for as long as there was traffic.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_hangs_is_given_up_for_a_new_one() {
    timely(async || {
        let server = Server::start();
        load_scripts(&server);
        let proxy = Proxy::start(server.port()).await;
        let limiter = limiter(&proxy.url(), 1_000).await;
        let _ = recover(&limiter).await;
        assert_eq!(proxy.connections(), 1);

        proxy.inflict(Fault::Hang).await;
        assert!(limiter.check("key").await.is_err());
        let _ = recover(&limiter).await;
        assert_eq!(proxy.connections(), 2);
    })
    .await;
}

/// A connection whose replies all arrived after the deadline was once replaced each second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_whose_replies_are_late_is_kept() {
    timely(async || {
        let server = Server::start();
        load_scripts(&server);
        let proxy = Proxy::start(server.port()).await;
        let limiter = limiter(&proxy.url(), 1_000).await;
        let _ = recover(&limiter).await;
        proxy.inflict(Fault::Late).await;
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(3_500) {
            assert!(limiter.check("key").await.is_err());
            sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(proxy.connections(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_that_was_dropped_while_disconnected_is_never_charged() {
    timely(async || {
        let mut server = Server::start();
        let limiter = limiter(&server.url(), 1_000).await;
        let _ = recover(&limiter).await;
        assert!(server.command(&["SHUTDOWN", "NOSAVE"]).is_err(), "it ends without an answer");
        let check = || limiter.check("key");
        while check().await.map_err(|error| error.kind()) != Err(ErrorKind::Unavailable) {}
        for _ in 0..50 {
            let _ = tokio::time::timeout(Duration::from_micros(100), check()).await;
        }
        server.restart();
        let (decision, _) = recover(&limiter).await;
        assert!(decision.remaining() >= 990, "{decision:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_whose_answer_is_lost_is_charged_once() {
    timely(async || {
        let server = Server::start();
        load_scripts(&server);
        let proxy = Proxy::start(server.port()).await;
        // Longer than it takes to connect again: there is time enough to send it again.
        let limiter = patient(&proxy.url(), 1_000).await;
        let check = async || limiter.check("key").await;
        let _ = recover(&limiter).await;
        let (mut charged, mut unknown) = (1, 0);
        for _ in 0..10 {
            proxy.inflict(Fault::Cut).await;
            assert_eq!(check().await.unwrap_err().kind(), ErrorKind::Undetermined);
            charged += 1;
            loop {
                match check().await {
                    Ok(_) => break,
                    Err(error) if error.kind() == ErrorKind::Unavailable => {}
                    Err(_) => unknown += 1,
                }
                sleep(Duration::from_millis(5)).await;
            }
            charged += 1;
        }
        let taken = 999 - check().await.unwrap().remaining();
        assert!(
            (charged..=charged + unknown).contains(&taken),
            "{taken} taken by {charged} checks"
        );
    })
    .await;
}

/// A proxy before a server, which treats connections as it is set to.
struct Proxy {
    port: u16,
    connections: Arc<AtomicU64>,
    fault: Arc<Mutex<Option<Fault>>>,
}

/// What happens to the connection that there is.
#[derive(Clone, Copy)]
enum Fault {
    /// It stays open, and forwards nothing.
    Hang,
    /// It is closed once the server has answered the next request, in place of the answer.
    Cut,
    /// All replies arrive later than a limiter's deadline.
    Late,
}

impl Proxy {
    async fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let proxy = Self { port, connections: Arc::default(), fault: Arc::default() };
        let (connections, fault) = (Arc::clone(&proxy.connections), Arc::clone(&proxy.fault));
        tokio::spawn(async move {
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                connections.fetch_add(1, Ordering::Relaxed);
                let fault = Arc::clone(&fault);
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                    let fault = tokio::select! {
                        _ = copy_bidirectional(&mut client, &mut server) => return,
                        fault = take(&fault) => fault,
                    };
                    match fault {
                        Fault::Hang => std::future::pending().await,
                        Fault::Late => {
                            let (mut from_client, mut to_client) = client.into_split();
                            let (mut from_server, mut to_server) = server.into_split();
                            let replies = async {
                                let mut bytes = [0; 4_096];
                                while let Ok(length @ 1..) = from_server.read(&mut bytes).await {
                                    sleep(Duration::from_millis(60)).await;
                                    to_client.write_all(&bytes[..length]).await.unwrap();
                                }
                            };
                            tokio::select! {
                                _ = copy(&mut from_client, &mut to_server) => {}
                                () = replies => {}
                            }
                        }
                        Fault::Cut => {
                            let mut bytes = [0; 4_096];
                            let length = client.read(&mut bytes).await.unwrap();
                            server.write_all(&bytes[..length]).await.unwrap();
                            let _ = server.read(&mut bytes).await.unwrap();
                        }
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

    async fn inflict(&self, fault: Fault) {
        *self.fault.lock().unwrap() = Some(fault);
        while self.fault.lock().unwrap().is_some() {
            sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Returns the fault once there is one.
async fn take(fault: &Mutex<Option<Fault>>) -> Fault {
    loop {
        if let Some(fault) = fault.lock().unwrap().take() {
            return fault;
        }
        sleep(Duration::from_millis(1)).await;
    }
}
