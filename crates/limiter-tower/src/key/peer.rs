//! A key by the address of the socket's other end.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use http::request::Parts;
use limiter_core::{Error, ErrorKind, Key};

use super::{KeyExtractor, MissingKey};

/// Counts requests by the address of the socket's other end, without its port.
///
/// An IPv6 address counts by its first 64 bits, since a client commonly has all addresses that
/// begin with them; an IPv4 address mapped into IPv6 is the IPv4 address.
///
/// Where the address comes from is said in the [crate's documentation](crate#the-peers-address).
#[derive(Clone, Copy, Debug)]
pub struct PeerAddress {
    ipv6_mask: u128,
}

impl PeerAddress {
    /// Returns an extractor that counts IPv6 addresses by their first 64 bits.
    #[must_use]
    pub const fn new() -> Self {
        Self { ipv6_mask: u128::MAX << 64 }
    }

    /// Counts IPv6 addresses by their first `bits`; providers give customers 48, 56 or 64.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] unless `bits` is 1 to 128.
    pub fn with_ipv6_prefix(mut self, bits: u32) -> Result<Self, Error> {
        if !(1..=128).contains(&bits) {
            let message = format!("an IPv6 prefix of {bits} bits: use 1 to 128");
            return Err(Error::new(ErrorKind::InvalidSetting, message));
        }
        self.ipv6_mask = u128::MAX << (128 - bits);
        Ok(self)
    }
}

impl Default for PeerAddress {
    fn default() -> Self {
        Self::new()
    }
}

impl KeyExtractor for PeerAddress {
    fn extract<'r>(&self, request: &'r Parts) -> Result<Key<'r>, MissingKey> {
        let Some(peer) = peer(request) else {
            return Err(MissingKey::server(
                "the peer's address is not in the request: serve an axum app with \
                 into_make_service_with_connect_info::<SocketAddr>() and the feature `axum` of \
                 limiter-tower, or insert a SocketAddr into the request's extensions",
            ));
        };
        Ok(match peer.ip().to_canonical() {
            IpAddr::V4(address) => IpAddr::V4(address).into(),
            IpAddr::V6(address) => {
                let network = Ipv6Addr::from_bits(address.to_bits() & self.ipv6_mask);
                IpAddr::V6(network).into()
            }
        })
    }
}

fn peer(request: &Parts) -> Option<SocketAddr> {
    #[cfg(feature = "axum")]
    if let Some(info) = request.extensions.get::<axum::extract::ConnectInfo<SocketAddr>>() {
        return Some(info.0);
    }
    request.extensions.get::<SocketAddr>().copied()
}
