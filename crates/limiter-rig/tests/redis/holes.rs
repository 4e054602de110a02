//! A server in a hole: no connection to it is made, or none is answered. It is found soon after it
//! has drained out.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use limiter_rig::server::Server;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpSocket, TcpStream},
    time::{sleep, timeout},
};

use crate::{faults::recover, limiter, timely};

/// Less than a second, after which the system sends the first packet of a connection again.
const SOON: Duration = Duration::from_millis(850);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_to_which_no_connection_is_made_is_found_soon() {
    timely(async || {
        let server = Server::start();
        let listener = full_listener().await;
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let limiter = tokio::spawn(async move { limiter(&url, 1_000).await });
        // Its first attempt is lost, which no one sees.
        sleep(Duration::from_millis(100)).await;
        let hole = Hole::before(server.port(), listener);
        hole.end();

        let start = Instant::now();
        let _ = recover(&limiter.await.unwrap()).await;
        let took = start.elapsed();
        println!("found after {took:?}");
        assert!(took < SOON, "found only after {took:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_answers_no_connection_is_found_soon() {
    timely(async || {
        let server = Server::start();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let hole = Hole::before(server.port(), listener);
        let limiter = limiter(&url, 1_000).await;
        let before = hole.connections();
        while hole.connections() == before {
            // The breaker opens meanwhile.
            assert!(limiter.check("key").await.is_err());
            sleep(Duration::from_millis(1)).await;
        }
        // The attempt that has just begun stays without an answer.
        hole.end();

        let start = Instant::now();
        let _ = recover(&limiter).await;
        let took = start.elapsed();
        println!("found after {took:?}");
        assert!(took < SOON, "found only after {took:?}");
    })
    .await;
}

/// Takes connections for a server, and hands nothing on until it ends.
struct Hole {
    connections: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
}

impl Hole {
    fn before(server: u16, listener: TcpListener) -> Self {
        let (connections, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        tokio::spawn({
            let (connections, over) = (Arc::clone(&connections), Arc::clone(&over));
            async move {
                let mut silent = Vec::new();
                loop {
                    let (mut client, _) = listener.accept().await.unwrap();
                    connections.fetch_add(1, Ordering::AcqRel);
                    if !over.load(Ordering::Acquire) {
                        silent.push(client);
                        continue;
                    }
                    tokio::spawn(async move {
                        let mut server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                        let _ = copy_bidirectional(&mut client, &mut server).await;
                    });
                }
            }
        });
        Self { connections, over }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Acquire)
    }

    fn end(&self) {
        self.over.store(true, Ordering::Release);
    }
}

/// Returns a listener whose queue is full: the system drops the first packet of any connection.
async fn full_listener() -> TcpListener {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queued = Vec::new();
    while let Ok(stream) = timeout(Duration::from_millis(200), TcpStream::connect(address)).await {
        queued.push(stream.unwrap());
    }
    // Closed, they stay in the queue.
    listener
}
