//! The peer's address as a real server sees it: no extension is inserted by hand.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
};

use axum::{Router, routing::get};
use tokio::net::TcpListener;

use crate::layer;

/// Sends a request by hand, and returns the whole answer.
fn fetch(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
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

    let answers = tokio::task::spawn_blocking(move || (0..12).map(|_| fetch(address)).collect());
    let answers: Vec<String> = answers.await.unwrap();
    for answer in answers.iter().take(10) {
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    }
    for answer in answers.iter().skip(10) {
        assert!(answer.starts_with("HTTP/1.1 429 Too Many Requests\r\n"), "{answer}");
        assert!(answer.contains("\r\nretry-after: 6\r\n"), "{answer}");
    }
    serving.abort();
}
