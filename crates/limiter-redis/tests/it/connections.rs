//! Connections that are lost or hang: they are made anew, and nothing is charged twice or late.

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures::future::join_all;
use limiter_core::ErrorKind;
use limiter_redis::connect;
use limiter_rig::server::Server;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::sleep,
};

use crate::{
    PATIENT, builder, eventually, faults::recover, limiter, limiter_here, load_scripts, patient,
};

/// Connections once ended for good when the server died while the client's queue was full.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_against_a_stopped_server_that_dies_is_survived() {
    let mut server = Server::start();
    let limiter = limiter_here(&server.url(), 1_000_000).await;
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

/// A connection without any reply was once kept for as long as there was traffic.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_hangs_is_given_up_for_a_new_one() {
    let server = Server::start();
    load_scripts(&server);
    let proxy = Proxy::start(server.port()).await;
    let limiter = limiter(&proxy.url(), 1_000).await;
    let _ = recover(&limiter).await;
    let before = proxy.connections();

    proxy.inflict_on_next_call(Fault::Hang);
    assert!(limiter.check("key").await.is_err());
    let _ = recover(&limiter).await;
    assert!(proxy.connections() > before);
}

/// A connection whose replies all arrived after the deadline was once replaced each second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_whose_replies_are_late_is_kept() {
    let server = Server::start();
    load_scripts(&server);
    let proxy = Proxy::start(server.port()).await;
    let connection = connect(&proxy.url()).await.unwrap();
    let patient = builder(1_000_000).deadline(PATIENT).build_on(connection.clone()).unwrap();
    let hasty = builder(1_000_000).deadline(Duration::from_millis(1)).build_on(connection).unwrap();
    assert!(patient.check("key").await.unwrap().is_admitted());
    let before = proxy.connections();
    proxy.inflict_on_next_call(Fault::Late);
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(3_500) {
        let _ = hasty.check("key").await;
        sleep(Duration::from_millis(1)).await;
    }
    assert!(hasty.counters().undetermined > 0);
    // It was replaced three times. Once may be the machine's doing: no reply to a PING for half a second.
    let more = proxy.connections() - before;
    assert!(more <= 1, "{more} connections more");
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_whose_answer_is_lost_is_charged_once() {
    let server = Server::start();
    load_scripts(&server);
    let proxy = Proxy::start(server.port()).await;
    // Longer than it takes to connect again: there is time enough to send it again.
    let limiter = patient(&proxy.url(), 1_000).await;
    let check = async || limiter.check("key").await;
    let _ = recover(&limiter).await;
    let (mut charged, mut unknown) = (1, 0);
    for _ in 0..10 {
        proxy.inflict_on_next_call(Fault::Cut);
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
    assert!((charged..=charged + unknown).contains(&taken), "{taken} taken by {charged} checks");
}

/// A proxy before a server, which can do harm to connections.
struct Proxy {
    port: u16,
    connections: Arc<AtomicU64>,
    fault: Arc<Mutex<Option<Fault>>>,
}

/// What happens to the connection on which the next script is called.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    /// It stays open, and forwards nothing, not even that call.
    Hang,
    /// It is closed once the server has replied to that call, in place of the reply.
    Cut,
    /// From then on its replies arrive late, and those of later connections.
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
                let (client, _) = listener.accept().await.unwrap();
                connections.fetch_add(1, Ordering::Relaxed);
                let fault = Arc::clone(&fault);
                tokio::spawn(async move {
                    let server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                    // An error is the end of the connection.
                    let _ = forward(client, server, &fault).await;
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

    fn inflict_on_next_call(&self, fault: Fault) {
        *self.fault.lock().unwrap() = Some(fault);
    }
}

/// Forwards the bytes of one connection until it ends, and inflicts the fault if a script is called on it.
async fn forward(
    mut client: TcpStream,
    mut server: TcpStream,
    fault: &Mutex<Option<Fault>>,
) -> io::Result<()> {
    let (mut request, mut reply) = ([0; 65_536], [0; 65_536]);
    let mut inflicted = None;
    loop {
        tokio::select! {
            length = client.read(&mut request) => {
                let bytes = &request[..length?];
                if bytes.windows(4).any(|word| word == b"EVAL") {
                    let mut fault = fault.lock().unwrap();
                    inflicted = inflicted.or(*fault);
                    fault.take_if(|fault| *fault != Fault::Late);
                }
                match inflicted {
                    _ if bytes.is_empty() => return Ok(()),
                    Some(Fault::Hang) => std::future::pending().await,
                    _ => server.write_all(bytes).await?,
                }
            }
            length = server.read(&mut reply) => {
                let bytes = &reply[..length?];
                match inflicted {
                    _ if bytes.is_empty() => return Ok(()),
                    // A script replies with numbers, and no other command of this client does.
                    Some(Fault::Cut) if bytes.contains(&b':') => return Ok(()),
                    Some(Fault::Late) => sleep(Duration::from_millis(60)).await,
                    _ => {}
                }
                client.write_all(bytes).await?;
            }
        }
    }
}
