//! The key of an address.

use super::*;

#[track_caller]
fn assert_key(extractor: &ClientIp, client: &str, key: &str) {
    for request in [
        request(client, "x-forwarded-for", &["198.51.100.1"]),
        request("10.0.0.1", "x-forwarded-for", &["198.51.100.1", client]),
    ] {
        let found = extractor.key((&request).into()).unwrap();
        assert_eq!(found, Key::from(key.parse::<IpAddr>().unwrap()), "{client}");
    }
}

#[test]
fn ipv4_addresses_are_keys() {
    for extractor in [behind(), behind().ipv6_prefix(1).unwrap()] {
        assert_key(&extractor, "203.0.113.7", "203.0.113.7");
        assert_key(&extractor, "::ffff:203.0.113.7", "203.0.113.7");
    }
}

#[test]
fn ipv6_addresses_are_counted_by_their_prefix() {
    let address = "2001:db8:b:ffff:ffff:ffff:ffff:ffff";
    assert_key(&behind(), address, "2001:db8:b:ffff::");
    assert_key(&behind(), "2001:db8:b:ffff::1", "2001:db8:b:ffff::");
    assert_key(&behind(), "::1", "::");
    let rows = [(1, "::"), (32, "2001:db8::"), (48, "2001:db8:b::"), (56, "2001:db8:b:ff00::")];
    for (bits, key) in rows.into_iter().chain([(64, "2001:db8:b:ffff::"), (128, address)]) {
        assert_key(&behind().ipv6_prefix(bits).unwrap(), address, key);
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
