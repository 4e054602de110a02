//! Header fields with one address.

use super::*;

const NAME: &str = "x-real-ip";

#[test]
fn a_trusted_peer_names_the_client_by_one_line_of_one_address() {
    assert_clients(&real_ip(), NAME, REAL_IP);
    let name = "cf-connecting-ip";
    let cloudflare = ClientIp::header(HeaderName::from_static(name), PROXIES).unwrap();
    assert_clients(&cloudflare, name, &[("10.0.0.1", &["203.0.113.7"], "203.0.113.7")]);
    assert_clients(&cloudflare, NAME, &[("10.0.0.1", &["198.51.100.1"], "10.0.0.1")]);
}

const REAL_IP: &[Row] = &[
    ("10.0.0.1", &["203.0.113.7"], "203.0.113.7"),
    ("10.0.0.1", &[" 203.0.113.7:80 "], "203.0.113.7"),
    ("10.0.0.1", &["[2001:db8:b::7]:80"], "2001:db8:b::7"),
    ("::ffff:10.0.0.1", &["::ffff:203.0.113.7"], "203.0.113.7"),
    ("10.0.0.1", &[], "10.0.0.1"),
    ("10.0.0.1", &[""], "10.0.0.1"),
    ("10.0.0.1", &["198.51.100.1", "203.0.113.7"], "10.0.0.1"),
    ("10.0.0.1", &["203.0.113.7", "203.0.113.7"], "10.0.0.1"),
    ("10.0.0.1", &["198.51.100.1, 203.0.113.7"], "10.0.0.1"),
    ("10.0.0.1", &["unknown"], "10.0.0.1"),
    ("10.0.0.1", &["\u{e9}"], "10.0.0.1"),
];

#[test]
fn a_list_is_refused() {
    for (name, remedy) in
        [("x-forwarded-for", "use ClientIp::behind"), ("forwarded", "use ClientIp::forwarded")]
    {
        let error = ClientIp::header(HeaderName::from_static(name), PROXIES).unwrap_err();
        let expected =
            format!("invalid header field {name:?}: it is a list of addresses; {remedy}");
        assert_eq!(error.to_string(), expected);
    }
}
