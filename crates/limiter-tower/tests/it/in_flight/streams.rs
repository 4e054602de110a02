//! Real servers: HTTP/1 and 2, server-sent events, gRPC streams, and connections that idle.

use std::net::SocketAddr;

use axum::response::sse::{Event, Sse};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use tokio::{net::TcpStream, sync::mpsc, time::timeout};
use tokio_stream::{StreamExt, wrappers::ReceiverStream};

use super::*;
use crate::server::{Client, Server};

const AT_MOST: Duration = Duration::from_secs(30);

async fn until_held(rule: &InFlightRule, held: u64) {
    let wait = async {
        while rule.held() != held {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(AT_MOST, wait).await.unwrap_or_else(|_| panic!("{} held, not {held}", rule.held()));
}

/// Returns an app of one route that streams events which the test sends, for each request.
fn events(rule: &InFlightRule) -> (Router, mpsc::UnboundedReceiver<mpsc::Sender<&'static str>>) {
    let (streams, opened) = mpsc::unbounded_channel();
    let route = get(move || {
        let (sender, receiver) = mpsc::channel(1);
        streams.send(sender).unwrap();
        let events = ReceiverStream::new(receiver).map(|text| Event::default().data(text));
        async move { Sse::new(events.map(Ok::<_, Infallible>)) }
    });
    let layer = InFlightLayer::all([rule.clone()]);
    (Router::new().route("/", route).layer(layer), opened)
}

fn request(address: SocketAddr) -> Request<Empty<Bytes>> {
    let uri = format!("http://{address}/");
    Request::builder().uri(uri).header("host", "test").body(Empty::new()).unwrap()
}

#[tokio::test]
async fn server_sent_events_hold_a_permit_until_they_end() {
    let rule = rule(1).0;
    let (app, mut opened) = events(&rule);
    let server = Server::start(app).await;
    let client = server.connect().await.sender;
    let send = || client.clone().send_request(request(server.address));
    let response: Response<Incoming> = send().await.unwrap();
    assert_eq!((response.status().as_u16(), rule.held()), (200, 1));
    let events = opened.recv().await.unwrap();
    let mut body = response.into_body();
    events.send("one").await.unwrap();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "data: one\n\n");
    assert_eq!(send().await.unwrap().status(), 429);
    drop(events);
    assert_eq!(body.collect().await.unwrap().to_bytes(), "");
    until_held(&rule, 0).await;
    assert_eq!(send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn an_http2_reset_gives_the_permit_back_before_and_within_the_body() {
    let rule = rule(2).0;
    let (app, mut opened) = events(&rule);
    let waits = get(async || pending::<()>().await);
    let app = app.route("/never", waits.layer(InFlightLayer::all([rule.clone()])));
    let server = Server::start(app).await;
    let mut client = server.connect().await.sender;
    // Within the body.
    let response = client.send_request(request(server.address)).await.unwrap();
    let _events = opened.recv().await.unwrap();
    until_held(&rule, 1).await;
    drop(response);
    until_held(&rule, 0).await;
    // Before the response.
    let uri = format!("http://{}/never", server.address);
    let never = Request::builder().uri(uri).body(Empty::new()).unwrap();
    let sent = tokio::spawn(client.send_request(never));
    until_held(&rule, 1).await;
    sent.abort();
    until_held(&rule, 0).await;
}

#[tokio::test]
async fn a_client_that_closes_its_connection_gives_all_permits_back() {
    let rule = rule(10).0;
    let (app, mut opened) = events(&rule);
    let server = Server::start(app).await;
    let Client { sender: mut client, socket } = server.connect().await;
    let mut senders = Vec::new();
    let mut responses = Vec::new();
    for _ in 0..10 {
        responses.push(client.send_request(request(server.address)).await.unwrap());
        senders.push(opened.recv().await.unwrap());
    }
    until_held(&rule, 10).await;
    socket.shutdown(std::net::Shutdown::Both).unwrap();
    until_held(&rule, 0).await;
}

/// A server takes a body of one piece at once, whether or not its client reads.
#[tokio::test]
async fn a_client_that_reads_nothing_of_one_piece_holds_its_permit() {
    use tokio::io::AsyncWriteExt;
    let rule = rule(1).0;
    let large = get(async || vec![0_u8; 32 << 20]);
    let app = Router::new().route("/", large).layer(InFlightLayer::all([rule.clone()]));
    let server = Server::start(app).await;
    let mut other = server.connect().await.sender;
    // By HTTP/1, and by HTTP/2, whose windows are full at once.
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    socket.write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    until_held(&rule, 1).await;
    for _ in 0..3 {
        assert_eq!(other.send_request(request(server.address)).await.unwrap().status(), 429);
    }
    drop(socket);
    until_held(&rule, 0).await;
    let unread = server.connect().await.sender.send_request(request(server.address)).await.unwrap();
    for _ in 0..3 {
        assert_eq!(other.send_request(request(server.address)).await.unwrap().status(), 429);
    }
    drop(unread);
    until_held(&rule, 0).await;
}

mod grpc {
    use tonic::{
        Code,
        transport::{Endpoint, server::TcpIncoming},
    };
    use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

    use super::*;

    #[tokio::test]
    async fn a_grpc_stream_holds_a_permit_until_its_trailers() {
        let rule = rule(1).0;
        let layer = InFlightLayer::all([rule.clone()]).answers(Answers::new().grpc());
        let (reporter, service) = tonic_health::server::health_reporter();
        let incoming = TcpIncoming::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = incoming.local_addr().unwrap();
        let router = tonic::transport::Server::builder().layer(layer).add_service(service);
        tokio::spawn(router.serve_with_incoming(incoming));
        let endpoint = Endpoint::try_from(format!("http://{address}")).unwrap();
        let mut client = HealthClient::new(endpoint.connect().await.unwrap());
        // A unary call ends with its trailers.
        for _ in 0..3 {
            client.check(HealthCheckRequest::default()).await.unwrap();
            until_held(&rule, 0).await;
        }
        let mut stream = client.watch(HealthCheckRequest::default()).await.unwrap().into_inner();
        assert!(stream.message().await.unwrap().is_some());
        assert_eq!(rule.held(), 1);
        let refused = client.check(HealthCheckRequest::default()).await.unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        assert_eq!(refused.message(), "too many requests in flight");
        assert!(!refused.metadata().contains_key("grpc-retry-pushback-ms"));
        drop((stream, reporter));
        until_held(&rule, 0).await;
        client.check(HealthCheckRequest::default()).await.unwrap();
    }
}
