//! Sets of networks.

use std::net::IpAddr;

use ipnet::IpNet;
use limiter_core::{Error, ErrorKind};

/// A set of networks, for example of those that are exempt from a limit.
///
/// ```
/// use limiter_tower::{ClientIp, key::{Head, Networks}};
///
/// let client = ClientIp::behind(["10.0.8.0/24"])?;
/// let monitoring = Networks::parse(["192.0.2.0/28", "2001:db8:7::/48"])?;
/// let is_exempt =
///     move |head: Head<'_>| client.address(head).is_ok_and(|address| monitoring.contains(address));
/// # let _ = is_exempt;
/// # Ok::<(), limiter_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Networks {
    /// The first and last address of each network. Sorted, and none is inside another one, so that a
    /// binary search finds the only one that can contain an address. It keeps long lists of proxies
    /// fast, and clients can send headers with thousands of addresses.
    ranges: Vec<(IpAddr, IpAddr)>,
}

impl Networks {
    /// Returns the set of `networks`. Each is an address, or an address and a prefix length,
    /// such as `"192.0.2.7"`, `"10.0.0.0/8"` or `"2001:db8::/32"`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] if one is something else, or if bits after its prefix are set, as in `10.0.0.1/8`.
    pub fn parse(networks: impl IntoIterator<Item: AsRef<str>>) -> Result<Self, Error> {
        let ranges = networks.into_iter().map(|network| {
            let network = network.as_ref().trim();
            range(network).map_err(|fault| invalid("network", network, &fault))
        });
        let mut ranges = ranges.collect::<Result<Vec<_>, _>>()?;
        // Of networks with the same first address, the largest comes first.
        ranges.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        ranges.dedup_by(|later, kept| later.1 <= kept.1);
        Ok(Self { ranges })
    }

    /// Returns whether one of the networks contains `address`.
    ///
    /// An IPv4 address mapped into IPv6 is the IPv4 address, which no IPv6 network contains.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let after = self.ranges.partition_point(|(first, _)| *first <= address);
        let before = after.checked_sub(1).and_then(|index| self.ranges.get(index));
        before.is_some_and(|(_, last)| address <= *last)
    }
}

/// Returns the first and the last address of a network.
fn range(network: &str) -> Result<(IpAddr, IpAddr), String> {
    let parsed = match network.parse::<IpAddr>() {
        Ok(address) => IpNet::from(address),
        Err(_) => network.parse::<IpNet>().map_err(|_| {
            "it is not an IP address with an optional prefix length; use for example 192.0.2.7, 10.0.0.0/8 or \
             2001:db8::/32"
        })?,
    };
    if parsed.trunc() != parsed {
        return Err(format!("bits after the prefix are set; use {}", parsed.trunc()));
    }
    let (first, last) = (parsed.network(), parsed.broadcast());
    // A shorter prefix than 96 bits leaves the mapped addresses, so it is an IPv6 network even if
    // its last address is a mapped one.
    match parsed.prefix_len() {
        96.. => Ok((first.to_canonical(), last.to_canonical())),
        _ => Ok((first, last)),
    }
}

/// Returns the error of a setting.
pub(super) fn invalid(what: &str, value: &str, fault: &str) -> Error {
    Error::new(ErrorKind::InvalidSetting, format!("invalid {what} {value:?}: {fault}"))
}
