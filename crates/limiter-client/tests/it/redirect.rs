//! A layer inside of this one that follows redirects.

#![cfg(feature = "redirects")]

use std::{convert::Infallible, future::ready};

use http::Request;
use tokio::time::Instant;
use tower::{ServiceBuilder, ServiceExt, service_fn};
use tower_http::follow_redirect::FollowRedirectLayer;

use crate::{Body, response, unlimited};

/// What another host has sent can't be known by account, so nothing is learned of it.
#[tokio::test(start_paused = true)]
async fn a_followed_redirect_teaches_nothing_if_a_closure_names_the_hosts() {
    let layer = unlimited().host(|head| Some(head.headers.get("x-account")?.to_str().ok()?.into()));
    let client = ServiceBuilder::new().layer(layer).layer(FollowRedirectLayer::new());
    let client = client.service(service_fn(|request: Request<Body>| {
        let response = match request.uri().host().unwrap() {
            "a.example" => response(302, &[("location", "http://b.example/")]),
            _ => response(429, &[("retry-after", "30")]),
        };
        ready(Ok::<_, Infallible>(response))
    }));
    let start = Instant::now();
    for _ in 0..3 {
        let request = Request::get("http://a.example/").header("x-account", "alice");
        let response = client.clone().oneshot(request.body(Body::default()).unwrap()).await;
        assert_eq!(response.unwrap().status(), 429);
    }
    assert_eq!(start.elapsed().as_secs(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_followed_redirect_teaches_the_host_that_answered() {
    let client = ServiceBuilder::new().layer(unlimited()).layer(FollowRedirectLayer::new());
    let client = client.service(service_fn(|request: Request<Body>| {
        let response = match (request.uri().host().unwrap(), request.uri().path()) {
            ("a.example", "/moved") => response(302, &[("location", "http://b.example/")]),
            ("a.example", _) => response(200, &[]),
            _ => response(429, &[("retry-after", "30")]),
        };
        ready(Ok::<_, Infallible>(response))
    }));
    let start = Instant::now();
    for (uri, status, seconds) in [
        ("http://a.example/moved", 429, 0),
        ("http://a.example/", 200, 0),
        ("http://b.example/", 429, 30),
    ] {
        let request = Request::get(uri).body(Body::default()).unwrap();
        let response = client.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), status, "{uri}");
        assert_eq!(start.elapsed().as_secs(), seconds, "{uri}");
    }
}
