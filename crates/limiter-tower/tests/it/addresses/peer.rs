//! How the peer's address is found.

use std::net::SocketAddr;

use axum::extract::connect_info::{ConnectInfo, MockConnectInfo};

use super::*;

fn socket(last: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, last], 4711))
}

fn request(extension: impl Clone + Send + Sync + 'static) -> Request<()> {
    let mut request = Request::new(());
    request.extensions_mut().insert(extension);
    request
}

fn peer(request: &Request<()>) -> String {
    ClientIp::peer().address(request).unwrap().to_string()
}

#[test]
fn the_peer_is_what_the_server_has_inserted() {
    let mut request = request(MockConnectInfo(socket(3)));
    assert_eq!(peer(&request), "192.0.2.3");
    // In a test that serves by a socket, as axum's own extractor does.
    request.extensions_mut().insert(ConnectInfo(socket(2)));
    assert_eq!(peer(&request), "192.0.2.2");
    // Such as the address that the PROXY protocol names.
    request.extensions_mut().insert(PeerAddr(socket(1)));
    assert_eq!(peer(&request), "192.0.2.1");
}

#[test]
fn the_peer_is_the_remote_address_of_tonic() {
    use tonic::transport::server::TcpConnectInfo;

    let info = |remote_addr| TcpConnectInfo { local_addr: Some(socket(9)), remote_addr };
    assert_eq!(peer(&request(info(Some(socket(1))))), "192.0.2.1");
    let closed = request(info(None));
    assert!(ClientIp::peer().address(&closed).is_err());
}

#[test]
fn a_bare_socket_address_is_not_the_peer() {
    let request = request(socket(1));
    let missing = ClientIp::peer().address(&request).unwrap_err();
    assert!(matches!(missing, MissingKey::Server(_)));
}

#[test]
fn without_a_peer_the_error_says_what_to_do() {
    let request = Request::new(());
    for extractor in [ClientIp::peer(), behind(), real_ip()] {
        let missing = extractor.key((&request).into()).unwrap_err();
        assert!(matches!(missing, MissingKey::Server(_)));
        let text = missing.to_string();
        for remedy in [
            "into_make_service_with_connect_info::<SocketAddr>()",
            "MockConnectInfo",
            "tonic",
            "PeerAddr",
        ] {
            assert!(text.contains(remedy), "{text}");
        }
    }
}

#[test]
fn the_peer_reads_no_header() {
    for name in ["x-forwarded-for", "forwarded", "x-real-ip"] {
        let mut request = request(PeerAddr(socket(1)));
        request.headers_mut().insert(name, "198.51.100.1".parse().unwrap());
        assert_eq!(peer(&request), "192.0.2.1");
    }
}
