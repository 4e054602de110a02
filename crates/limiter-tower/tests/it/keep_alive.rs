//! Idle connections.

use http_body_util::Empty;
use hyper::client::conn::http1::SendRequest;
use tokio::time::timeout;
use tower::limit::GlobalConcurrencyLimitLayer;

use crate::{server::Server, *};

const AT_MOST: Duration = Duration::from_secs(30);

/// Sends a request on a kept connection, and returns the response's status.
async fn send(client: &mut SendRequest<Empty<Bytes>>) -> u16 {
    client.ready().await.unwrap();
    let request = Request::builder().header("host", "test").body(Empty::new()).unwrap();
    let response = client.send_request(request).await.unwrap();
    let status = response.status().as_u16();
    text(response).await;
    status
}

#[tokio::test]
async fn idle_connections_take_nothing_from_others() {
    let test = async {
        let limiter = hourly("api", 60);
        let at_once = limiter_core::InFlight::new("at-once", 1).unwrap();
        let at_once = InFlightRule::new(at_once, FixedKey::new("all"));
        // axum drives a service to readiness for each request, so the permit is taken by the request.
        let app = Router::new()
            .route("/", get(async || "hello"))
            .layer(GlobalConcurrencyLimitLayer::new(1))
            .layer(InFlightLayer::all([at_once.clone()]))
            .layer(RateLimitLayer::new(limiter.clone(), FixedKey::new("all")));
        let server = Server::start(app).await;
        // Some have never sent a request, and the others are kept after a response.
        let (mut unused, mut kept) = (Vec::new(), Vec::new());
        for _ in 0..50 {
            unused.push(server.http1().await);
            kept.push(server.http1().await);
        }
        assert_eq!(limiter.peek("all").used(), 0);
        for client in &mut kept {
            // The inner concurrency limit of one is free again.
            assert_eq!(send(client).await, 200);
        }
        assert_eq!((limiter.peek("all").used(), at_once.held()), (50, 0));
        let mut other = server.http1().await;
        for _ in 0..10 {
            assert_eq!(send(&mut other).await, 200);
        }
        // A kept connection is limited like a new one.
        for client in unused.iter_mut().chain(&mut kept).chain([&mut other]) {
            assert_eq!(send(client).await, 429);
        }
        assert_eq!(limiter.peek("all").used(), 60);
    };
    timeout(AT_MOST, test).await.unwrap();
}
