//! The client's address in a header field.

use std::{net::IpAddr, num::NonZero};

use http::{HeaderMap, HeaderName};

use super::{Networks, forwarded, node};

pub(super) static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The header field that a [`ClientIp`](super::ClientIp) reads, and how.
#[derive(Clone, Debug)]
pub(super) enum Field {
    XForwardedFor,
    Forwarded,
    /// An entry of `X-Forwarded-For`, from the right.
    Hops(NonZero<usize>),
    /// A field with one address.
    Single(HeaderName),
}

impl Field {
    /// Returns the client's address: the peer, unless that is a trusted proxy and the field contains
    /// another one.
    pub(super) fn client(&self, peer: IpAddr, headers: &HeaderMap, trusted: &Networks) -> IpAddr {
        if !trusted.contains(peer) {
            return peer;
        }
        self.find(headers, trusted).unwrap_or(peer)
    }

    /// Returns the client's address, or `None` if the field does not contain it.
    ///
    /// The time is linear in the length of the field: a client can send long ones.
    fn find(&self, headers: &HeaderMap, trusted: &Networks) -> Option<IpAddr> {
        match self {
            Self::XForwardedFor => nearest_untrusted(entries(headers).map(node::address), trusted),
            Self::Forwarded => nearest_untrusted(forwarded::addresses(headers), trusted),
            Self::Hops(number) => entries(headers).nth(number.get() - 1).and_then(node::address),
            Self::Single(name) => {
                let mut lines = headers.get_all(name).iter();
                match (lines.next(), lines.next()) {
                    (Some(line), None) => node::address(line.as_bytes()),
                    _ => None,
                }
            }
        }
    }
}

/// Returns the entries of all lines of `X-Forwarded-For`, from the right.
fn entries(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let lines = headers.get_all(&X_FORWARDED_FOR).iter().rev();
    lines.flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b','))
}

/// Returns the first address outside of `trusted`, or `None` if an entry before it is not an address.
///
/// Such an entry is not skipped, because the entries after it may have been sent by the client.
fn nearest_untrusted(
    mut addresses: impl Iterator<Item = Option<IpAddr>>,
    trusted: &Networks,
) -> Option<IpAddr> {
    addresses.find(|entry| entry.is_none_or(|address| !trusted.contains(address))).flatten()
}
