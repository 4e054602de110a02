//! Idle connections.

use std::time::Duration;

use axum::{Router, routing::get};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use limiter_core::{ManualClock, MemoryLimiter, Policy, Quota};
use limiter_tower::{RateLimitLayer, key::FixedKey};
use std::net::SocketAddr;
use tokio::{
    net::{TcpListener, TcpStream},
    task::AbortHandle,
    time::timeout,
};
use tower::limit::GlobalConcurrencyLimitLayer;

use crate::limiter_of;

const AT_MOST: Duration = Duration::from_secs(30);

type Client = SendRequest<Empty<Bytes>>;

/// Returns the address of a server of an inner concurrency limit of one, its limiter, and the task to
/// abort.
async fn serve(permits: u64) -> (SocketAddr, MemoryLimiter<ManualClock>, AbortHandle) {
    let (limiter, _) = limiter_of(Policy::gcra("api", Quota::per_hour(permits)));
    // axum drives a service to readiness for each request, so the permit is taken by the request.
    let app = Router::new()
        .route("/", get(async || "hello"))
        .layer(GlobalConcurrencyLimitLayer::new(1))
        .layer(RateLimitLayer::new(limiter.clone(), FixedKey::new("all")));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move { axum::serve(listener, app).await });
    (address, limiter, serving.abort_handle())
}

async fn connect(address: SocketAddr) -> Client {
    let io = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (client, connection) = http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Sends a request on a kept connection, and returns the response's status.
async fn send(client: &mut Client) -> u16 {
    client.ready().await.unwrap();
    let request = Request::builder().header("host", "test").body(Empty::new()).unwrap();
    let response = client.send_request(request).await.unwrap();
    let status = response.status().as_u16();
    response.into_body().collect().await.unwrap();
    status
}

#[tokio::test]
async fn connections_that_never_sent_a_request_take_nothing_from_others() {
    let test = async {
        let (address, limiter, server) = serve(10).await;
        let mut idle = Vec::new();
        for _ in 0..50 {
            idle.push(connect(address).await);
        }
        assert_eq!(limiter.peek("all").used(), 0);
        let mut client = connect(address).await;
        for expected in [200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 429] {
            assert_eq!(send(&mut client).await, expected);
        }
        drop(idle);
        server.abort();
    };
    timeout(AT_MOST, test).await.unwrap();
}

#[tokio::test]
async fn connections_that_are_kept_after_a_response_take_nothing_from_others() {
    let test = async {
        let (address, limiter, server) = serve(60).await;
        let mut idle = Vec::new();
        for _ in 0..50 {
            let mut client = connect(address).await;
            // The inner concurrency limit of one is free again.
            assert_eq!(send(&mut client).await, 200);
            idle.push(client);
        }
        assert_eq!(limiter.peek("all").used(), 50);
        let mut other = connect(address).await;
        for _ in 0..10 {
            assert_eq!(send(&mut other).await, 200);
        }
        // A kept connection is limited like a new one.
        for client in &mut idle {
            assert_eq!(send(client).await, 429);
        }
        assert_eq!(send(&mut other).await, 429);
        assert_eq!(limiter.peek("all").used(), 60);
        server.abort();
    };
    timeout(AT_MOST, test).await.unwrap();
}
