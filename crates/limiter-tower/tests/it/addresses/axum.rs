//! The client of requests to a real router.

use std::net::SocketAddr;

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, connect_info::MockConnectInfo},
    routing::get,
};
use limiter_tower::ClientIp;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tower::ServiceExt;

/// Returns a router that responds with the client's address.
fn app(extractor: ClientIp) -> Router {
    let respond = async move |request: Request| match extractor.address(&request) {
        Ok(address) => address.to_string(),
        Err(missing) => missing.to_string(),
    };
    Router::new().route("/", get(respond))
}

async fn client(app: Router, forwarded_for: &str) -> String {
    let request = Request::get("/").header("x-forwarded-for", forwarded_for);
    let response = app.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let body = to_bytes(response.into_body(), 1024).await.unwrap();
    String::from_utf8(body.to_vec()).unwrap()
}

#[tokio::test]
async fn a_test_chooses_the_peer() {
    let peer = |address: [u8; 4]| MockConnectInfo(SocketAddr::from((address, 4711)));
    let stranger = app(super::behind()).layer(peer([192, 0, 2, 1]));
    assert_eq!(client(stranger, "203.0.113.7").await, "192.0.2.1");
    let proxy = app(super::behind()).layer(peer([10, 0, 0, 1]));
    assert_eq!(client(proxy, "203.0.113.7").await, "203.0.113.7");
}

#[tokio::test]
async fn a_router_without_connect_info_is_reported() {
    let text = client(app(ClientIp::peer()), "203.0.113.7").await;
    assert!(text.contains("into_make_service_with_connect_info"), "{text}");
}

#[tokio::test]
async fn the_peer_of_a_served_router_is_the_sockets() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = app(ClientIp::peer()).into_make_service_with_connect_info::<SocketAddr>();
    let server = tokio::spawn(async move { axum::serve(listener, app).await });

    let stream = TcpStream::connect(address).await.unwrap();
    let body = send(stream, "X-Forwarded-For: 198.51.100.1\r\n").await;
    server.abort();
    assert_eq!(body, "127.0.0.1");
}

/// Sends a request with `fields`, and returns the response's body.
async fn send(mut stream: TcpStream, fields: &str) -> String {
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{response}");
    body.to_owned()
}
