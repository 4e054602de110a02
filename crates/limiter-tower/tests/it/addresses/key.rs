//! The key of an address.

use super::*;

/// A prefix of so many bits, or the default, an address, and its key.
#[test]
fn ipv6_addresses_are_counted_by_their_prefix() {
    let address = "2001:db8:b:ffff:ffff:ffff:ffff:ffff";
    for (bits, client, key) in [
        (None, "203.0.113.7", "203.0.113.7"),
        (None, "::ffff:203.0.113.7", "203.0.113.7"),
        (Some(1), "203.0.113.7", "203.0.113.7"),
        (Some(1), "::ffff:203.0.113.7", "203.0.113.7"),
        (None, address, "2001:db8:b:ffff::"),
        (None, "2001:db8:b:ffff::1", "2001:db8:b:ffff::"),
        (None, "::1", "::"),
        (Some(1), address, "::"),
        (Some(32), address, "2001:db8::"),
        (Some(48), address, "2001:db8:b::"),
        (Some(56), address, "2001:db8:b:ff00::"),
        (Some(64), address, "2001:db8:b:ffff::"),
        (Some(128), address, address),
    ] {
        let extractor = bits.map_or(behind(), |bits| behind().ipv6_prefix(bits).unwrap());
        for request in [
            request(client, "x-forwarded-for", &["198.51.100.1"]),
            request("10.0.0.1", "x-forwarded-for", &["198.51.100.1", client]),
        ] {
            let found = extractor.key((&request).into()).unwrap();
            assert_eq!(found, Key::from(key.parse::<IpAddr>().unwrap()), "{client} by {bits:?}");
        }
    }
}

#[test]
fn the_address_is_not_cut_to_its_prefix() {
    let request = request("2001:db8:b::7", "x-forwarded-for", &[""; 0]);
    let (parts, ()) = request.into_parts();
    assert_eq!(behind().address(&parts).unwrap().to_string(), "2001:db8:b::7");
}

#[test]
fn an_invalid_prefix_is_refused() {
    for bits in [0, 129, 255] {
        let error = ClientIp::peer().ipv6_prefix(bits).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("invalid IPv6 prefix \"{bits}\": it must be 1 to 128 bits; use for example 64")
        );
    }
}
