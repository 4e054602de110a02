//! Where the layer can be put, and the traits that it needs there.

use std::fmt::Debug;

use axum::handler::Handler;
use hyper_util::service::TowerToHyperService;
use limiter_tower::{
    ask::Admission,
    observe::PolicyDecision,
    refusal::Refused,
    service::{Rates, ResponseFuture, SameBody},
};
use tower::layer::util::Identity;

use crate::*;

/// Returns a layer that admits one request.
fn one() -> RateLimitLayer {
    RateLimitLayer::new(limiter(Quota::per_hour(1)).0, FixedKey::new("all"))
}

fn routes() -> Router {
    Router::new().route("/a", get(async || "a")).route("/b", get(async || "b"))
}

/// Paths, and the statuses of two requests for each.
type Requests = &'static [(&'static str, [u16; 2])];

#[tokio::test]
async fn it_counts_the_requests_to_what_is_inside_of_it() {
    let limited = async || "limited";
    let several = ServiceBuilder::new().layer(one()).option_layer(None::<Identity>);
    let rows: [(&str, Router, Requests); 5] = [
        ("a router", routes().layer(one()), &[("/missing", [404, 429]), ("/a", [429, 429])]),
        (
            "routes",
            routes().route_layer(one()),
            &[("/missing", [404, 404]), ("/a", [200, 429]), ("/b", [429, 429])],
        ),
        (
            "a route",
            routes().route("/limited", get(limited).layer(one())),
            &[("/limited", [200, 429]), ("/a", [200, 200])],
        ),
        (
            "a handler",
            routes().route("/limited", get(limited.layer(one())).post(async || "free")),
            &[("/limited", [200, 429]), ("/b", [200, 200])],
        ),
        ("a router, beside other layers", routes().layer(several), &[("/a", [200, 429])]),
    ];
    for (inside, app, requests) in rows {
        for (path, expected) in requests {
            assert_eq!(routed(&app, [path, path]).await, expected, "around {inside}: {path}");
        }
    }
}

#[tokio::test]
async fn it_keeps_the_error_of_the_service_inside() {
    let service = ServiceBuilder::new()
        .timeout(Duration::from_secs(10))
        .layer(one())
        .timeout(Duration::from_secs(10))
        .service(service_fn(hello));
    for expected in [200, 429] {
        let response = service.clone().oneshot(request()).await;
        let response: Result<_, tower::BoxError> = response;
        assert_eq!(response.unwrap().status(), expected);
    }
}

#[tokio::test]
async fn it_is_a_service_of_hyper() {
    let service = TowerToHyperService::new(one().layer(service_fn(hello)));
    for expected in [200, 429] {
        let request = request();
        let response = hyper::service::Service::call(&service, request).await.unwrap();
        assert_eq!(response.status(), expected);
    }
}

type Inner = tower::util::BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>;

const fn can_be_shared<T: Debug + Send + Sync + 'static>() {}
const fn can_be_cloned<T: Clone + Debug + Send + Sync + 'static>() {}
const fn can_be_sent<T: Debug + Send + 'static>() {}

const _: () = {
    can_be_cloned::<RateLimitLayer>();
    can_be_cloned::<Limited<Inner>>();
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
