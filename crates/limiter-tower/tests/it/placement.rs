//! Where the layer can be put, and the traits that it needs there.

use std::{convert::Infallible, fmt::Debug, time::Duration};

use axum::{Router, handler::Handler, routing::get};
use http::Request;
use hyper_util::service::TowerToHyperService;
use limiter_core::Quota;
use limiter_tower::{
    ClientIp, RateLimitLayer, Rule,
    ask::Admission,
    key::{FixedKey, Head},
    observe::{Decisions, PolicyDecision},
    plan::{Plan, Plans},
    refusal::Refused,
    rule::Wait,
    service::{Rates, ResponseFuture, SameBody},
    settle::Charge,
};
use tower::{Layer, ServiceBuilder, ServiceExt, layer::util::Identity, service_fn};

use crate::{Body, hello, limiter, request_from};

/// Returns a layer that admits one request.
fn one() -> RateLimitLayer {
    RateLimitLayer::new(limiter(Quota::per_hour(1)).0, FixedKey::new("all"))
}

async fn statuses(app: &Router, path: &str) -> [u16; 2] {
    let send = async || {
        let request = Request::builder().uri(path).body(axum::body::Body::empty()).unwrap();
        app.clone().oneshot(request).await.unwrap().status().as_u16()
    };
    [send().await, send().await]
}

fn routes() -> Router {
    Router::new().route("/a", get(async || "a")).route("/b", get(async || "b"))
}

#[tokio::test]
async fn around_a_router_it_counts_all_requests() {
    let app = routes().layer(one());
    assert_eq!(statuses(&app, "/missing").await, [404, 429]);
    assert_eq!(statuses(&app, "/a").await, [429, 429]);
}

#[tokio::test]
async fn around_routes_it_counts_requests_to_all_of_them_together() {
    let app = routes().route_layer(one());
    assert_eq!(statuses(&app, "/missing").await, [404, 404]);
    assert_eq!(statuses(&app, "/a").await, [200, 429]);
    assert_eq!(statuses(&app, "/b").await, [429, 429]);
}

#[tokio::test]
async fn around_one_route_it_counts_that_route() {
    let app = routes().route("/limited", get(async || "limited").layer(one()));
    assert_eq!(statuses(&app, "/limited").await, [200, 429]);
    assert_eq!(statuses(&app, "/a").await, [200, 200]);
}

#[tokio::test]
async fn around_one_handler_it_counts_that_handler() {
    let limited = async || "limited";
    let app = routes().route("/limited", get(limited.layer(one())).post(async || "free"));
    assert_eq!(statuses(&app, "/limited").await, [200, 429]);
    assert_eq!(statuses(&app, "/b").await, [200, 200]);
}

#[tokio::test]
async fn it_is_one_of_several_layers() {
    let layers = ServiceBuilder::new().layer(one()).option_layer(None::<Identity>);
    let app = routes().layer(layers);
    assert_eq!(statuses(&app, "/a").await, [200, 429]);
}

#[tokio::test]
async fn it_keeps_the_error_of_the_service_inside() {
    let service = ServiceBuilder::new()
        .layer(one())
        .timeout(Duration::from_secs(10))
        .service(service_fn(hello));
    for expected in [200, 429] {
        let response = service.clone().oneshot(request_from("192.0.2.1")).await;
        let response: Result<_, tower::BoxError> = response;
        assert_eq!(response.unwrap().status(), expected);
    }
}

#[tokio::test]
async fn it_is_inside_a_time_out() {
    let service = ServiceBuilder::new()
        .timeout(Duration::from_secs(10))
        .layer(one())
        .service(service_fn(hello));
    for expected in [200, 429] {
        let response = service.clone().oneshot(request_from("192.0.2.1")).await.unwrap();
        assert_eq!(response.status(), expected);
    }
}

#[tokio::test]
async fn it_is_a_service_of_hyper() {
    let service = TowerToHyperService::new(one().layer(service_fn(hello)));
    for expected in [200, 429] {
        let request = request_from("192.0.2.1");
        let response = hyper::service::Service::call(&service, request).await.unwrap();
        assert_eq!(response.status(), expected);
    }
}

type Inner = tower::util::BoxCloneSyncService<Request<Body>, http::Response<Body>, Infallible>;

const fn can_be_shared<T: Debug + Send + Sync + 'static>() {}
const fn can_be_cloned<T: Clone + Debug + Send + Sync + 'static>() {}
const fn can_be_sent<T: Debug + Send + 'static>() {}

const _: () = {
    can_be_cloned::<RateLimitLayer>();
    can_be_cloned::<crate::Limited<Inner>>();
    can_be_cloned::<Rule>();
    can_be_cloned::<Refused>();
    can_be_sent::<Admission>();
    can_be_cloned::<Plan>();
    can_be_cloned::<Plans>();
    can_be_cloned::<Decisions>();
    can_be_cloned::<Charge>();
    can_be_cloned::<ClientIp>();
    can_be_cloned::<Wait>();
    can_be_cloned::<PolicyDecision>();
    can_be_cloned::<Head<'static>>();
    can_be_shared::<Body>();
    can_be_sent::<ResponseFuture<Inner, Body, Rates<SameBody>>>();
};
