//! IP addresses as limiters store them.

use std::net::{IpAddr, Ipv6Addr};

/// The prefix length of the networks by which limiters count IPv6 clients, unless they set another one.
const PREFIX: u32 = 64;

/// The addresses whose keys an address or a network stands for, and a line that says so if they are others
/// than the one that was given.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub(crate) stored: Vec<IpAddr>,
    pub(crate) note: String,
}

impl Addresses {
    /// Reads an address, or an IPv6 network such as `2001:db8:1:2::/64`. Returns what the text is not,
    /// otherwise.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if let Some((address, prefix)) = text.split_once('/') {
            let address = address.parse::<Ipv6Addr>().ok();
            let prefix = prefix.parse().ok().filter(|prefix| (1..=128).contains(prefix));
            let network = address.zip(prefix).map(|(address, prefix)| masked(address, prefix));
            let network = network.ok_or("an IPv6 network with 1 to 128 bits")?;
            let note = format!("{text} is read as {network}, which is how limiters store it.\n");
            return Ok(Self { stored: vec![network.into()], note });
        }
        let address: IpAddr = text.parse().map_err(|_| "an IP address")?;
        let IpAddr::V6(whole) = address.to_canonical() else {
            return Ok(Self { stored: vec![address], note: String::new() });
        };
        let network = masked(whole, PREFIX);
        if whole == network {
            return Ok(Self { stored: vec![address], note: String::new() });
        }
        let note = format!(
            "{text} is read as this address, and as its network {network}/{PREFIX}, by which limiters \
             count IPv6 clients.\n"
        );
        Ok(Self { stored: vec![address, network.into()], note })
    }
}

fn masked(address: Ipv6Addr, prefix: u32) -> Ipv6Addr {
    let mask = u128::MAX.checked_shl(128 - prefix).unwrap_or(0);
    Ipv6Addr::from_bits(address.to_bits() & mask)
}
