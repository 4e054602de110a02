//! The peer's address on a real server, which inserts the extension itself.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
};

use axum::{Router, routing::get};
use tokio::net::TcpListener;

use crate::layer;

/// Sends a request over a socket, and returns the whole response.
fn fetch(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_axum_server_limits_by_the_peers_address() {
    let app = Router::new().route("/", get(|| async { "hello" })).layer(layer().0);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        axum::serve(listener, app).await.unwrap();
    });

    let responses = tokio::task::spawn_blocking(move || (0..12).map(|_| fetch(address)).collect());
    let responses: Vec<String> = responses.await.unwrap();
    for response in responses.iter().take(10) {
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    }
    for response in responses.iter().skip(10) {
        assert!(response.starts_with("HTTP/1.1 429 Too Many Requests\r\n"), "{response}");
        assert!(response.contains("\r\nretry-after: 6\r\n"), "{response}");
    }
    serving.abort();
}
