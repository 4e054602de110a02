//! A key by the client's address.

mod field;
mod forwarded;
mod networks;
mod node;
mod peer;

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    num::NonZero,
};

use http::{HeaderMap, HeaderName, header::FORWARDED};
use limiter_core::{Error, Key};

use self::field::{Field, X_FORWARDED_FOR};
use self::networks::invalid;
pub use self::{networks::Networks, peer::PeerAddr};
use super::{Head, KeyExtractor, KeySource, MissingKey};

/// Counts requests by the client's address.
///
/// The address has one source:
///
/// | constructor | the client's address |
/// |---|---|
/// | [`peer`](Self::peer) | the peer: the other end of the connection |
/// | [`behind`](Self::behind) | the rightmost address in `X-Forwarded-For` that is not a proxy's |
/// | [`forwarded`](Self::forwarded) | the rightmost address in `Forwarded` that is not a proxy's |
/// | [`hops`](Self::hops) | the n-th address from the right in `X-Forwarded-For` |
/// | [`header`](Self::header) | a header field with one address, such as `CF-Connecting-IP` |
///
/// ```
/// use limiter_tower::ClientIp;
///
/// // Clients connect to the program itself.
/// let key = ClientIp::peer();
///
/// // Clients connect to nginx at 192.0.2.10, or to a load balancer in 10.0.8.0/24.
/// let key = ClientIp::behind(["192.0.2.10", "10.0.8.0/24"])?;
/// # Ok::<(), limiter_core::Error>(())
/// ```
///
/// # Trusted proxies
///
/// A client can send any header field. So all constructors but `peer` require the addresses of the
/// proxies, and:
///
/// - If the peer is not one of them, the peer is the client and the header field is ignored.
/// - If the field is missing or does not say who the client is, the peer is the client too. All such
///   clients of one proxy share one key.
///
/// List only proxies that set the header field, and no network that they share with clients: a
/// client with a trusted address can choose its key.
///
/// # Addresses
///
/// Ports and zones (`%eth0`) are dropped. An IPv4 address mapped into IPv6 (`::ffff:192.0.2.1`) is the
/// IPv4 address. IPv6 addresses are counted by their [prefix](Self::ipv6_prefix) of 64 bits, because
/// a client usually has all addresses of such a network. Behind a translator (NAT64, SIIT) with the
/// well-known prefix, `64:ff9b::192.0.2.1` counts as 192.0.2.1; for a prefix of the network's own, set
/// 128 bits. By 6to4 (RFC 3056), each IPv4 address has 65,536 such networks, so `2002:c000:201::1` counts as
/// 192.0.2.1, too.
///
/// # The peer
///
/// The server inserts it into the request's extensions. These are read, in this order:
///
/// 1. [`PeerAddr`].
/// 2. With the feature `axum`: `ConnectInfo<SocketAddr>`, which
///    `app.into_make_service_with_connect_info::<SocketAddr>()` inserts, and `MockConnectInfo`, so
///    that a test can choose the peer.
/// 3. With the feature `tonic`: `TcpConnectInfo`, which tonic's `Server` inserts for connections with
///    and without TLS. For a `serve_with_incoming` of TLS streams of your own, insert [`PeerAddr`].
///
/// Without any of them the key is missing by a fault of the [server](MissingKey::Server).
#[derive(Clone, Debug)]
pub struct ClientIp {
    source: AddressSource,
    ipv6_mask: u128,
}

#[derive(Clone, Debug)]
enum AddressSource {
    Peer,
    /// The field is read only if the peer is trusted.
    Field {
        field: Field,
        trusted: Networks,
    },
}

impl ClientIp {
    /// Returns the extractor of the peer's address. It reads no header field.
    #[must_use]
    pub const fn peer() -> Self {
        Self::new(AddressSource::Peer)
    }

    /// Returns the extractor for a program behind the proxies `trusted`, which append the address of
    /// their peer to `X-Forwarded-For`.
    ///
    /// Each proxy is an address or a network, such as `"192.0.2.10"` or `"10.0.8.0/24"`. None means
    /// that the peer is always the client.
    ///
    /// The client is the first address from the right, over all field lines, that is not trusted.
    /// What is left of it was sent by the client, and is not read. If an entry before it is not
    /// an address (empty, `unknown`, `_hidden`), or if all addresses are trusted, the peer is the
    /// client.
    ///
    /// ```
    /// use http::Request;
    /// use limiter_tower::{ClientIp, key::PeerAddr};
    ///
    /// let key = ClientIp::behind(["10.0.8.0/24"])?;
    /// let request = Request::builder()
    ///     .extension(PeerAddr(([10, 0, 8, 1], 4711).into()))
    ///     .header("x-forwarded-for", "198.51.100.1, 203.0.113.7, 10.0.8.2")
    ///     .body(())?;
    /// assert_eq!(key.address(&request)?.to_string(), "203.0.113.7");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`](limiter_core::ErrorKind::InvalidSetting) if a network is invalid: see [`Networks::parse`].
    pub fn behind(trusted: impl IntoIterator<Item: AsRef<str>>) -> Result<Self, Error> {
        Self::reading(Field::XForwardedFor, trusted)
    }

    /// Returns the extractor for a program behind the proxies `trusted`, which append the address of
    /// their peer to `Forwarded` ([RFC 7239]).
    ///
    /// The client is found as by [`behind`](Self::behind), in the parameters `for`. An element
    /// without `for`, with two, or with a syntax error is not an address.
    ///
    /// [RFC 7239]: https://www.rfc-editor.org/rfc/rfc7239
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`](limiter_core::ErrorKind::InvalidSetting) if a network is invalid: see [`Networks::parse`].
    pub fn forwarded(trusted: impl IntoIterator<Item: AsRef<str>>) -> Result<Self, Error> {
        Self::reading(Field::Forwarded, trusted)
    }

    /// Returns the extractor for a program behind `number` proxies in a row. Each appends the address
    /// of its peer to `X-Forwarded-For`.
    ///
    /// It is for proxies whose addresses are not all known: only the last one has to be in `trusted`.
    /// The client is the entry `number` from the right, over all field lines; 1 is the rightmost. If
    /// there are fewer entries, or if that one is not an address, the peer is the client.
    ///
    /// If clients can reach a proxy that is not the first one, they can choose their key: prefer
    /// [`behind`](Self::behind).
    ///
    /// ```
    /// use limiter_tower::ClientIp;
    ///
    /// // A content delivery network, then a load balancer in 10.0.8.0/24.
    /// let key = ClientIp::hops(2, ["10.0.8.0/24"])?;
    /// # Ok::<(), limiter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`](limiter_core::ErrorKind::InvalidSetting) if `number` is 0, or if a network is invalid: see
    /// [`Networks::parse`].
    pub fn hops(
        number: usize,
        trusted: impl IntoIterator<Item: AsRef<str>>,
    ) -> Result<Self, Error> {
        match NonZero::new(number) {
            Some(number) => Self::reading(Field::Hops(number), trusted),
            None => Err(invalid(
                "number of hops",
                "0",
                "it must be at least 1; without a proxy use ClientIp::peer",
            )),
        }
    }

    /// Returns the extractor for a program behind the proxies `trusted`, which overwrite the header
    /// field `name` with the client's address, such as `X-Real-IP`, `CF-Connecting-IP`,
    /// `Fly-Client-IP` or `True-Client-IP`.
    ///
    /// If there are several field lines, or if the value is not one address, the peer is the client.
    ///
    /// A proxy that passes the field on as the client has sent it lets clients choose their key.
    ///
    /// ```
    /// use http::HeaderName;
    /// use limiter_tower::ClientIp;
    ///
    /// let key = ClientIp::header(HeaderName::from_static("x-real-ip"), ["192.0.2.10"])?;
    /// # Ok::<(), limiter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`](limiter_core::ErrorKind::InvalidSetting) if `name` is `X-Forwarded-For` or `Forwarded`, which are lists,
    /// or if a network is invalid: see [`Networks::parse`].
    pub fn header(
        name: HeaderName,
        trusted: impl IntoIterator<Item: AsRef<str>>,
    ) -> Result<Self, Error> {
        let remedy = match name {
            _ if name == X_FORWARDED_FOR => "ClientIp::behind",
            FORWARDED => "ClientIp::forwarded",
            _ => return Self::reading(Field::Single(name), trusted),
        };
        let fault = format!("it is a list of addresses; use {remedy}");
        Err(invalid("header field", name.as_str(), &fault))
    }

    /// Sets how many leading bits of an IPv6 address are the key: 1 to 128, and 64 by default.
    ///
    /// Many providers assign networks of 56 or 48 bits, so that a client has 256 or 65,536 keys of 64
    /// bits. A smaller number of bits counts more clients under one key: use it for a second rule, of a larger quota.
    ///
    /// ```
    /// use limiter_tower::{ClientIp, MemoryLimiter, Policy, Quota, RateLimitLayer, Rule};
    ///
    /// let limiter = |name, permits| MemoryLimiter::new(Policy::gcra(name, Quota::per_minute(permits)));
    /// let client = ClientIp::behind(["10.0.8.0/24"])?;
    /// let layer = RateLimitLayer::all([
    ///     Rule::new(limiter("client", 100), client.clone()),
    ///     Rule::new(limiter("site", 1_000), client.ipv6_prefix(48)?),
    /// ]);
    /// # Ok::<(), limiter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`](limiter_core::ErrorKind::InvalidSetting) unless `bits` is 1 to 128.
    pub fn ipv6_prefix(self, bits: u8) -> Result<Self, Error> {
        match bits {
            1..=128 => Ok(Self { ipv6_mask: mask(bits), ..self }),
            _ => {
                let fault = "it must be 1 to 128 bits; use for example 64";
                Err(invalid("IPv6 prefix", &bits.to_string(), fault))
            }
        }
    }

    /// Returns the client's full address, without port and zone, for example to exempt some
    /// [`Networks`].
    ///
    /// It is never an IPv4 address mapped into IPv6. One that was translated (`64:ff9b::/96`), or of 6to4, is the
    /// IPv6 address.
    ///
    /// # Errors
    ///
    /// [`MissingKey::Server`] if the request has no peer.
    pub fn address<'r>(&self, head: impl Into<Head<'r>>) -> Result<IpAddr, MissingKey> {
        let head = head.into();
        peer::find(head.extensions).map(|peer| self.client(peer, head.headers))
    }

    /// Returns the key under which requests of the client with this address are counted, for
    /// [`Rule::reset`](crate::Rule::reset) and the like: that of its network, if it is an IPv6 address.
    ///
    /// ```
    /// use std::net::IpAddr;
    /// use limiter_tower::ClientIp;
    ///
    /// let clients = ClientIp::peer();
    /// let of_network: IpAddr = "2001:db8::".parse()?;
    /// assert_eq!(clients.key_of("2001:db8::1".parse()?), of_network.into());
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    #[must_use]
    pub fn key_of(&self, address: IpAddr) -> Key<'static> {
        match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => match translated(address) {
                Some(address) => address.into(),
                None => Ipv6Addr::from_bits(address.to_bits() & self.ipv6_mask).into(),
            },
        }
    }

    const fn new(source: AddressSource) -> Self {
        Self { source, ipv6_mask: mask(64) }
    }

    fn reading(field: Field, trusted: impl IntoIterator<Item: AsRef<str>>) -> Result<Self, Error> {
        Ok(Self::new(AddressSource::Field { field, trusted: Networks::parse(trusted)? }))
    }

    /// Returns the client's address, which is not an IPv4 address mapped into IPv6.
    fn client(&self, peer: &SocketAddr, headers: &HeaderMap) -> IpAddr {
        let peer = peer.ip().to_canonical();
        match &self.source {
            AddressSource::Peer => peer,
            AddressSource::Field { field, trusted } => field.client(peer, headers, trusted),
        }
    }
}

impl KeyExtractor for ClientIp {
    fn key<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey> {
        Ok(match (&self.source, peer::find(head.extensions)?) {
            // Not by an `IpAddr`, whose copies are slow: 7 ns a request.
            (AddressSource::Peer, SocketAddr::V4(peer)) => (*peer.ip()).into(),
            (_, peer) => self.key_of(self.client(peer, head.headers)),
        })
    }

    fn source(&self) -> KeySource {
        KeySource::Own
    }
}

/// Returns the address of an IPv4 client that a translator represents under the well-known prefix
/// `64:ff9b::/96` (RFC 6052, section 2.1), or that has the networks `2002:V4ADDR::/48` by 6to4 (RFC 3056, section 2).
fn translated(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.octets() {
        [0x00, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d]
        | [0x20, 0x02, a, b, c, d, ..] => Some(Ipv4Addr::new(a, b, c, d)),
        _ => None,
    }
}

/// Returns the mask of the first `bits` of 128.
const fn mask(bits: u8) -> u128 {
    match bits {
        0 => 0,
        bits => u128::MAX << (128 - bits),
    }
}
