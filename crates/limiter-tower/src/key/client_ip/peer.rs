//! The peer of a request's connection.

use std::net::SocketAddr;

use http::Extensions;

use crate::key::MissingKey;

/// The address of a connection's other end, for servers other than axum and tonic.
///
/// The server inserts it into the extensions of each request, where [`ClientIp`](super::ClientIp)
/// reads it. It has precedence over the types of axum and tonic, so that a server behind a load
/// balancer that uses the PROXY protocol can insert the address in that protocol's header.
///
/// A bare `SocketAddr` in the extensions is not read, because it may be the local address.
///
/// The peer of a Unix socket has no address: insert one of your choice, or use another key there,
/// such as [`FixedKey`](crate::key::FixedKey) or [`key_fn`](crate::key::key_fn).
///
/// ```
/// use std::net::SocketAddr;
/// use http::Request;
/// use limiter_tower::key::PeerAddr;
///
/// /// The server calls this with each request and the address that `accept` has returned.
/// fn with_peer<B>(mut request: Request<B>, peer: SocketAddr) -> Request<B> {
///     request.extensions_mut().insert(PeerAddr(peer));
///     request
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerAddr(pub SocketAddr);

#[cfg(feature = "axum")]
macro_rules! axum_remedy {
    () => {
        "with axum, serve by `into_make_service_with_connect_info::<SocketAddr>()`, and in tests \
         add the layer `MockConnectInfo`; "
    };
}
#[cfg(not(feature = "axum"))]
macro_rules! axum_remedy {
    () => {
        "with axum, enable limiter-tower's feature `axum`; "
    };
}

#[cfg(feature = "tonic")]
macro_rules! tonic_remedy {
    () => {
        "tonic inserts one for TCP connections; "
    };
}
#[cfg(not(feature = "tonic"))]
macro_rules! tonic_remedy {
    () => {
        "with tonic, enable limiter-tower's feature `tonic`; "
    };
}

const NO_PEER: &str = concat!(
    "the request's extensions have no peer address: ",
    axum_remedy!(),
    tonic_remedy!(),
    "with another server, insert `limiter_tower::key::PeerAddr`"
);

/// Returns the peer's address.
#[inline]
pub(super) fn find(extensions: &Extensions) -> Result<&SocketAddr, MissingKey> {
    let inserted = extensions.get().map(|PeerAddr(peer)| peer);
    let peer = inserted.or_else(|| axum(extensions)).or_else(|| tonic(extensions));
    peer.ok_or_else(|| MissingKey::server(NO_PEER))
}

#[cfg(feature = "axum")]
fn axum(extensions: &Extensions) -> Option<&SocketAddr> {
    use axum::extract::connect_info::{ConnectInfo, MockConnectInfo};
    // In the order of axum's own extractor.
    let connected = extensions.get().map(|ConnectInfo::<SocketAddr>(peer)| peer);
    connected.or_else(|| extensions.get().map(|MockConnectInfo::<SocketAddr>(peer)| peer))
}

#[cfg(not(feature = "axum"))]
const fn axum(_: &Extensions) -> Option<&SocketAddr> {
    None
}

#[cfg(feature = "tonic")]
fn tonic(extensions: &Extensions) -> Option<&SocketAddr> {
    // tonic's own TLS inserts this type too, beside `TlsConnectInfo`.
    extensions.get::<tonic::transport::server::TcpConnectInfo>()?.remote_addr.as_ref()
}

#[cfg(not(feature = "tonic"))]
const fn tonic(_: &Extensions) -> Option<&SocketAddr> {
    None
}
