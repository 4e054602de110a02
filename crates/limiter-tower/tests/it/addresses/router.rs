//! The client of requests to a real router.

use std::net::SocketAddr;

use axum::{
    body::{Body, to_bytes},
    extract::{Request, connect_info::MockConnectInfo},
};

use super::*;

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
    let stranger = app(behind()).layer(peer([192, 0, 2, 1]));
    assert_eq!(client(stranger, "203.0.113.7").await, "192.0.2.1");
    let proxy = app(behind()).layer(peer([10, 0, 0, 1]));
    assert_eq!(client(proxy, "203.0.113.7").await, "203.0.113.7");
}

#[tokio::test]
async fn a_router_without_connect_info_is_reported() {
    let text = client(app(ClientIp::peer()), "203.0.113.7").await;
    assert!(text.contains("into_make_service_with_connect_info"), "{text}");
}
