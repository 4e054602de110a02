//! The stacks in which the layer leaves the type of responses as it is, and those that need `any_body`.

use http_body::Body as _;
use http_body_util::{
    BodyExt, Either, Empty, Full,
    combinators::{BoxBody, UnsyncBoxBody},
};
use limiter_tower::service::{FromRefusal, ResponseFuture};

use crate::*;

fn one() -> RateLimitLayer {
    RateLimitLayer::new(limiter(Quota::per_hour(1)).0, ClientIp::peer())
}

/// Sends two requests, and returns the texts of the responses.
async fn texts<S, R>(mut service: S) -> [String; 2]
where
    S: Service<Request<axum::body::Body>, Response = Response<R>>,
    S::Error: std::fmt::Debug,
    R: http_body::Body<Data = Bytes>,
    R::Error: std::fmt::Debug,
{
    let mut texts = Vec::new();
    for status in [200, 429] {
        let request = request().map(axum::body::Body::new);
        let response = service.ready().await.unwrap().call(request).await.unwrap();
        assert_eq!(response.status(), status);
        texts.push(text(response).await);
    }
    texts.try_into().unwrap()
}

const BOTH: [&str; 2] = ["hello", "rate limit exceeded\n"];

/// Returns a service whose responses have this body.
fn answering<R>(
    body: impl Fn() -> R + Clone,
) -> impl Service<Request<axum::body::Body>, Response = Response<R>, Error = Infallible, Future: Send>
+ Clone
where
    R: Send,
{
    service_fn(move |_| std::future::ready(Ok::<_, Infallible>(Response::new(body()))))
}

fn full() -> Full<Bytes> {
    Full::from("hello")
}

#[tokio::test]
async fn the_body_of_a_refusal_is_that_of_the_inner_service() {
    assert_eq!(texts(one().layer(answering(full))).await, BOTH);
    assert_eq!(texts(one().layer(answering(|| axum::body::Body::from("hello")))).await, BOTH);
    assert_eq!(texts(one().layer(answering(|| tonic::body::Body::new(full())))).await, BOTH);
    let boxed = || BoxBody::<Bytes, hyper::Error>::new(full().map_err(|never| match never {}));
    assert_eq!(texts(one().layer(answering(boxed))).await, BOTH);
    let unsync = || UnsyncBoxBody::<Bytes, Infallible>::new(full());
    assert_eq!(texts(one().layer(answering(unsync))).await, BOTH);
    let either = || Either::<Empty<Bytes>, _>::Right(full());
    assert_eq!(texts(one().layer(answering(either))).await, BOTH);
    // It can't have the text.
    assert_eq!(texts(one().layer(answering(Empty::<Bytes>::new))).await, ["", ""]);
    assert!(tonic::body::Body::from_refusal(Bytes::new()).is_end_stream());
}

#[tokio::test]
async fn a_body_that_is_somebody_elses_becomes_either() {
    use tower_http::{compression::CompressionLayer, trace::TraceLayer};
    let inside = ServiceBuilder::new()
        .layer(one().any_body())
        .layer(TraceLayer::new_for_http())
        .layer(CompressionLayer::new())
        .service(answering(full));
    assert_eq!(texts(inside).await, BOTH);
    let outside = ServiceBuilder::new()
        .layer(TraceLayer::new_for_http())
        .layer(CompressionLayer::new())
        .layer(one())
        .service(answering(full));
    assert_eq!(texts(outside).await, BOTH);
    // Files, and the responses of a proxy.
    let folder = tower_http::services::ServeDir::new(env!("CARGO_MANIFEST_DIR"));
    let files = one().any_body().layer(folder);
    let request = request().map(axum::body::Body::new);
    assert_eq!(files.oneshot(request).await.unwrap().status(), 404);
    let _proxy = one().any_body().layer(service_fn(|_: Request<Body>| {
        std::future::pending::<Result<Response<hyper::body::Incoming>, hyper::Error>>()
    }));
}

/// Returns a response's future, whose type the layer keeps.
fn same_body<S>(mut service: S) -> S::Future
where
    S: Service<Request<Body>, Response = Response<Full<Bytes>>, Error = Infallible>,
{
    service.call(request())
}

#[tokio::test]
async fn layers_around_it_see_the_type_of_the_inner_service() {
    let inner = service_fn(hello);
    let future: ResponseFuture<_, _, _> = same_body(one().layer(one().layer(inner)));
    assert_eq!(future.await.unwrap().status(), 200);
    let app: Router = Router::new()
        .route("/", get(async || "hello").layer(one()))
        .nest("/nested", Router::new().route("/", get(async || "hello")).route_layer(one()))
        .layer(one());
    assert_eq!(texts(app).await, BOTH);
}
