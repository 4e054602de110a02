//! A server in a hole: no connection to it is made. It is tried again, and found once it is out.

use std::{fs, time::Duration};

use limiter_rig::server::Server;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpSocket, TcpStream},
    time::timeout,
};

use crate::{eventually, limiter, recover};

/// The system sends the first packet of a connection again, after a second and then ever more seldom. A new connection
/// reaches the server sooner.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_to_which_no_connection_is_made_is_tried_again_and_found() {
    let server = Server::start();
    let listener = full_listener().await;
    let port = listener.local_addr().unwrap().port();
    let limiter =
        tokio::spawn(async move { limiter(&format!("redis://127.0.0.1:{port}"), 1_000).await });
    // The lines of sockets whose first packet is not answered have this address, and this state.
    let (to, state) = (format!("0100007F:{port:04X}"), "02");
    let attempt = || {
        let tcp = fs::read_to_string("/proc/net/tcp").unwrap();
        let words = tcp.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let mut attempts = words.filter(|words| words[2] == to && words[3] == state);
        attempts.next().map(|words| words[1].to_owned())
    };
    eventually("there is an attempt", async || attempt().is_some()).await;
    let first = attempt();
    let is_another = async || attempt().is_some_and(|attempt| Some(attempt) != first);
    eventually("there is another attempt", is_another).await;

    let port = server.port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    let _ = recover(&limiter.await.unwrap()).await;
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
