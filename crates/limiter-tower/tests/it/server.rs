//! Servers on loopback, their clients, and the peer's address, which axum inserts.

use std::net::SocketAddr;

use http_body_util::Empty;
use hyper::client::conn::{http1, http2};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

use crate::*;

/// A server of HTTP/1 and 2, which is stopped when this is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    accepting: JoinHandle<()>,
}

/// One connection of HTTP/2.
pub(crate) struct Client {
    pub(crate) sender: http2::SendRequest<Empty<Bytes>>,
    pub(crate) socket: std::net::TcpStream,
}

impl Server {
    pub(crate) async fn start(app: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let service = TowerToHyperService::new(app.clone());
                connections.spawn(async move {
                    let mut builder = auto::Builder::new(TokioExecutor::new());
                    builder.http2().max_concurrent_streams(2_000);
                    // A connection that a client breaks off is an error.
                    drop(builder.serve_connection(TokioIo::new(socket), service).await);
                });
            }
        });
        Self { address, accepting }
    }

    pub(crate) async fn connect(&self) -> Client {
        let socket = TcpStream::connect(self.address).await.unwrap().into_std().unwrap();
        let io = TokioIo::new(TcpStream::from_std(socket.try_clone().unwrap()).unwrap());
        let builder = http2::Builder::new(TokioExecutor::new());
        let (sender, connection) = builder.handshake(io).await.unwrap();
        tokio::spawn(connection);
        Client { sender, socket }
    }

    /// Returns a connection of HTTP/1.
    pub(crate) async fn http1(&self) -> http1::SendRequest<Empty<Bytes>> {
        let io = TokioIo::new(TcpStream::connect(self.address).await.unwrap());
        let (client, connection) = http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        client
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Sends a request of HTTP/1.1 without a body, and returns the whole response.
pub(crate) async fn fetch(server: SocketAddr, head: &str) -> String {
    let mut stream = TcpStream::connect(server).await.unwrap();
    let request = format!("{head}\r\nhost: test\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}

#[tokio::test]
async fn an_axum_server_limits_by_the_peers_address() {
    let app = Router::new().route("/", get(|| async { "hello" })).layer(layer().0);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    for request in 0..12 {
        let response = fetch(address, "GET / HTTP/1.1").await;
        if request < 10 {
            assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
        } else {
            assert!(response.starts_with("HTTP/1.1 429 Too Many Requests\r\n"), "{response}");
            assert!(response.contains("\r\nretry-after: 6\r\n"), "{response}");
        }
    }
    serving.abort();
}
