//! Networks, and how they are written.

use limiter_tower::key::Networks;

use super::*;

/// Networks, and addresses inside and outside of them.
#[test]
fn a_network_contains_the_addresses_of_its_prefix() {
    type Row = (&'static [&'static str], &'static [&'static str], &'static [&'static str]);
    const ROWS: &[Row] = &[
        (&["192.0.2.7"], &["192.0.2.7", "::ffff:192.0.2.7"], &["192.0.2.6", "192.0.2.8"]),
        (
            &["10.0.0.0/8"],
            &["10.0.0.0", "10.255.255.255", "::ffff:10.1.2.3"],
            &["9.255.255.255", "11.0.0.0", "::a00:1", "2001:db8::"],
        ),
        (&["192.0.2.4/30"], &["192.0.2.4", "192.0.2.7"], &["192.0.2.3", "192.0.2.8"]),
        (&["::1"], &["::1"], &["::", "::2", "0.0.0.1"]),
        (
            &["2001:db8::/33"],
            &["2001:db8::", "2001:db8:7fff:ffff:ffff:ffff:ffff:ffff"],
            &["2001:db8:8000::", "2001:db7:ffff::"],
        ),
        (&["::ffff:10.0.0.0/104"], &["10.0.0.1"], &["11.0.0.0", "::a00:1"]),
        (&[" 10.0.0.0/8 "], &["10.0.0.1"], &[]),
        // All addresses of one family are none of the other.
        (&["0.0.0.0/0"], &["0.0.0.0", "255.255.255.255"], &["::", "::1", "ffff::"]),
        (&["::ffff:0:0/96"], &["0.0.0.0", "255.255.255.255"], &["::", "ffff::"]),
        (&["::/0"], &["::", "::1", "ffff::"], &["0.0.0.0", "::ffff:1.2.3.4"]),
        (&["::/80"], &["::", "::fffe:0:0"], &["1.2.3.4", "::1:0:0:0"]),
        (&[], &[], &["0.0.0.0", "::"]),
        // They may overlap, and be in any order.
        (
            &["10.9.0.0/16", "10.0.0.0/8", "10.0.0.0/9", "::1", "192.0.2.1", "10.0.0.0/8"],
            &["10.0.0.0", "10.200.0.0", "10.9.9.9", "192.0.2.1", "::1"],
            &["9.9.9.9", "11.0.0.0", "192.0.2.0", "192.0.2.2", "::2"],
        ),
    ];
    for (networks, inside, outside) in ROWS {
        let set = Networks::parse(*networks).unwrap();
        for (addresses, expected) in [(inside, true), (outside, false)] {
            for address in *addresses {
                let found = set.contains(address.parse().unwrap());
                assert_eq!(found, expected, "{address} in {networks:?}");
            }
        }
    }
}

#[test]
fn an_invalid_network_is_quoted_with_a_remedy() {
    let example = "use for example 192.0.2.7, 10.0.0.0/8 or 2001:db8::/32";
    let other = format!("it is not an IP address with an optional prefix length; {example}");
    let rows = [
        ("10.0.0.0/33", &*other),
        ("10.0.0.0/", &other),
        ("10.0.0.0/-1", &other),
        ("10.0.0.0/+8", &other),
        ("10.0.0.0/255.0.0.0", &other),
        ("2001:db8::/129", &other),
        ("2001:db8::/32/48", &other),
        ("", &other),
        ("10.0.0/8", &other),
        ("localhost", &other),
        ("[::1]", &other),
        ("192.0.2.7:80", &other),
        ("10.1.2.3/8", "bits after the prefix are set; use 10.0.0.0/8"),
        ("2001:db8::1/32", "bits after the prefix are set; use 2001:db8::/32"),
        ("::ffff:10.1.2.3/104", "bits after the prefix are set; use ::ffff:10.0.0.0/104"),
    ];
    for (network, fault) in rows {
        let error = ClientIp::behind(["::1", network]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSetting);
        assert_eq!(error.to_string(), format!("invalid network {network:?}: {fault}"));
    }
}

#[test]
fn no_hop_is_refused() {
    let error = ClientIp::hops(0, ["10.0.0.0/8"]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid number of hops \"0\": it must be at least 1; without a proxy use ClientIp::peer"
    );
}
