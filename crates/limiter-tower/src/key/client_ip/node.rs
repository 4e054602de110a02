//! Addresses as proxies write them.

use std::net::{IpAddr, Ipv6Addr};

/// Returns the address of an entry, without port and zone: `192.0.2.1`, `192.0.2.1:80`,
/// `2001:db8::1`, `[2001:db8::1]` or `[fe80::1%eth0]:80`, with whitespace around it.
pub(super) fn address(entry: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(entry).ok()?.trim_matches([' ', '\t']);
    let address = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            is_port_or_empty(port).then(|| ipv6(address))??.into()
        }
        None => match text.split_once(':') {
            None => IpAddr::V4(text.parse().ok()?),
            Some((address, _)) if address.contains('.') => {
                let port = text.get(address.len()..)?;
                is_port_or_empty(port).then(|| address.parse().ok())?.map(IpAddr::V4)?
            }
            Some(_) => ipv6(text)?.into(),
        },
    };
    Some(address.to_canonical())
}

fn ipv6(text: &str) -> Option<Ipv6Addr> {
    match text.split_once('%') {
        Some((_, "")) => None,
        Some((address, _zone)) => address.parse().ok(),
        None => text.parse().ok(),
    }
}

/// Returns whether `text` is empty, or a colon and a port: up to 5 digits, or a hidden port such as
/// `_abc` (RFC 7239, section 6).
fn is_port_or_empty(text: &str) -> bool {
    if text.is_empty() {
        return true;
    }
    let Some(port) = text.strip_prefix(':') else { return false };
    match port.strip_prefix('_') {
        Some(hidden) => !hidden.is_empty(),
        None => matches!(port.len(), 1..=5) && port.bytes().all(|byte| byte.is_ascii_digit()),
    }
}
