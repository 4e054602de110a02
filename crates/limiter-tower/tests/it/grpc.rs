//! gRPC: real tonic clients and a real tonic server, with the layer between them.

use std::{
    net::SocketAddr,
    task::{Context, Poll},
};

use http::uri::PathAndQuery;
use tonic::{
    Code, Status, Streaming,
    body::Body,
    server::NamedService,
    service::LayerExt,
    transport::{Channel, Endpoint, Server, server::TcpIncoming},
};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse,
    health_client::HealthClient,
    health_server::{Health, HealthServer},
};
use tonic_prost::ProstCodec;
use tonic_types::StatusExt;

use crate::{server::fetch, *};

/// The wait after the only permit of a minute.
const MINUTE: Duration = Duration::from_secs(60);

/// Returns a layer of one permit a minute for each address, and its clock, which does not move.
fn layer() -> (RateLimitLayer, ManualClock) {
    let (limiter, clock) = limiter(Quota::per_minute(1));
    (RateLimitLayer::new(limiter, ClientIp::peer()).answers(Answers::new().grpc()), clock)
}

/// Returns tonic's health service, which needs no generated code of ours.
fn health() -> HealthServer<impl Health> {
    tonic_health::server::health_reporter().1
}

/// Returns a listener on a free port of the loopback address.
fn listen() -> (TcpIncoming, SocketAddr) {
    let incoming = TcpIncoming::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = incoming.local_addr().unwrap();
    (incoming, address)
}

/// Serves all services behind one layer, until the test ends.
fn serve(layer: RateLimitLayer) -> SocketAddr {
    let (incoming, address) = listen();
    let mut server = Server::builder().accept_http1(true).layer(layer);
    let router = server.add_service(health()).add_service(Tally);
    tokio::spawn(router.serve_with_incoming(incoming));
    address
}

fn endpoint(server: SocketAddr) -> Endpoint {
    Endpoint::try_from(format!("http://{server}")).unwrap()
}

async fn connect(server: SocketAddr) -> Channel {
    endpoint(server).connect().await.unwrap()
}

/// Asserts that a status is a refusal by the layer, which asks for a retry after one minute.
#[track_caller]
fn assert_refused(status: &Status) {
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert_eq!(status.message(), "rate limit exceeded");
    assert_eq!(status.metadata().get("grpc-retry-pushback-ms").unwrap(), "60000");
    let details = status.check_error_details().unwrap();
    assert_eq!(details.retry_info().unwrap().retry_delay, Some(MINUTE));
    assert_eq!(details.quota_failure().unwrap().violations.first().unwrap().subject, "default");
}

/// The refusals of calls after one that is admitted, each behind a layer of its own.
#[tokio::test]
async fn each_kind_of_call_is_refused_with_status_message_and_delay() {
    let request = HealthCheckRequest::default;
    let connected = async || connect(serve(layer().0)).await;

    let mut unary = HealthClient::new(connected().await);
    unary.check(request()).await.unwrap();
    assert_refused(&unary.check(request()).await.unwrap_err());

    let mut streaming = HealthClient::new(connected().await);
    let mut stream = streaming.watch(request()).await.unwrap().into_inner();
    assert!(stream.message().await.unwrap().is_some());
    assert_refused(&streaming.watch(request()).await.unwrap_err());

    // A client's stream is refused before it ends.
    let channel = connected().await;
    let three = tokio_stream::iter(vec![request(); 3]);
    assert_eq!(tally(channel.clone(), three).await.unwrap(), 3);
    assert_refused(&tally(channel, tokio_stream::pending()).await.unwrap_err());
}

#[tokio::test]
async fn peers_have_separate_budgets() {
    let (layer, _clock) = layer();
    let server = serve(layer);
    for source in ["127.0.0.1", "127.0.0.2"] {
        let endpoint = endpoint(server).local_address(Some(source.parse().unwrap()));
        let mut client = HealthClient::new(endpoint.connect().await.unwrap());
        client.check(HealthCheckRequest::default()).await.unwrap();
        assert_refused(&client.check(HealthCheckRequest::default()).await.unwrap_err());
    }
}

#[tokio::test]
async fn a_grpc_web_request_is_refused_in_the_header_fields() {
    let (layer, _clock) = layer();
    let server = serve(layer);
    fetch(server, "GET / HTTP/1.1").await;
    for content_type in ["application/grpc-web+proto", "application/grpc-web-text; charset=utf-8"] {
        let request = "POST /grpc.health.v1.Health/Check HTTP/1.1\r\ncontent-length: 0";
        let response = fetch(server, &format!("{request}\r\ncontent-type: {content_type}")).await;
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        for line in [
            &format!("content-type: {content_type}"),
            "content-length: 0",
            "grpc-status: 8",
            "grpc-message: rate limit exceeded",
            "grpc-retry-pushback-ms: 60000",
        ] {
            assert!(head.lines().any(|found| found == line), "no {line:?} in {head}");
        }
        assert_eq!(body, "");
    }
}

#[tokio::test]
async fn a_named_layer_limits_its_own_service() {
    let (layer, _clock) = layer();
    let (incoming, address) = listen();
    let router = Server::builder().add_service(layer.named_layer(health())).add_service(Tally);
    tokio::spawn(router.serve_with_incoming(incoming));
    let channel = connect(address).await;
    let mut client = HealthClient::new(channel.clone());
    client.check(HealthCheckRequest::default()).await.unwrap();
    assert_refused(&client.check(HealthCheckRequest::default()).await.unwrap_err());
    for _ in 0..3 {
        assert_eq!(tally(channel.clone(), tokio_stream::empty()).await.unwrap(), 0);
    }
}

/// A service that counts the messages of a client's stream.
#[derive(Clone)]
struct Tally;

impl NamedService for Tally {
    const NAME: &'static str = "test.Tally";
}

impl Service<Request<Body>> for Tally {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = tonic::codegen::BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let count = |request: tonic::Request<Streaming<HealthCheckRequest>>| async {
            let (mut stream, mut status) = (request.into_inner(), 0);
            while stream.message().await?.is_some() {
                status += 1;
            }
            Ok(tonic::Response::new(HealthCheckResponse { status }))
        };
        Box::pin(async move {
            let mut grpc = tonic::server::Grpc::new(ProstCodec::default());
            Ok(grpc.client_streaming(service_fn(count), request).await)
        })
    }
}

/// Returns how many messages [`Tally`] has counted.
async fn tally<S>(channel: Channel, messages: S) -> Result<i32, Status>
where
    S: tokio_stream::Stream<Item = HealthCheckRequest> + Send + 'static,
{
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let path = PathAndQuery::from_static("/test.Tally/Count");
    let codec = ProstCodec::<HealthCheckRequest, HealthCheckResponse>::default();
    let response = client.client_streaming(tonic::Request::new(messages), path, codec).await?;
    Ok(response.into_inner().status)
}
