//! No header field lets a client choose its key.

use std::net::IpAddr;

use proptest::{
    collection::vec,
    prelude::{Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest},
    sample::select,
};

use super::*;

/// Addresses of trusted proxies.
const PROXIES: &[&str] = &["10.0.0.2", "10.0.0.3:80", "[2001:db8:a::1]:80"];

/// A header line of any bytes, or one that is nearly valid.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let piece = select(vec![
        "for=",
        "198.51.100.1",
        "10.0.0.2",
        "[2001:db8::1]",
        ":80",
        "unknown",
        ", ",
        ",",
        ";",
        "\"",
        "\\",
        "=",
        "%",
        " ",
        "host=\"",
        "_a",
    ]);
    let bytes = vec(any::<u8>(), 0..40)
        .prop_map(|bytes| bytes.into_iter().filter(|byte| *byte >= 32 && *byte != 127).collect());
    prop_oneof![bytes, vec(piece, 0..12).prop_map(|pieces| pieces.concat().into_bytes())]
}

/// Appends as a proxy does: a new line, or more of the last one.
fn append(lines: &mut Vec<Vec<u8>>, entry: &str, on_the_same_line: bool) {
    match lines.last_mut() {
        Some(last) if on_the_same_line => last.extend_from_slice(format!(", {entry}").as_bytes()),
        _ => lines.push(entry.into()),
    }
}

fn client(extractor: &ClientIp, request: &Request<()>) -> IpAddr {
    extractor.address(request).unwrap()
}

proptest! {
    #[test]
    fn an_untrusted_peer_is_always_the_client(lines in vec(line(), 0..4), peer: IpAddr) {
        let expected = if peer.to_string().starts_with("10.0.0.") {
            "203.0.113.7".parse().unwrap()
        } else {
            peer.to_canonical()
        };
        for (extractor, name) in [
            (behind(), "x-forwarded-for"),
            (hops(1), "x-forwarded-for"),
            (forwarded(), "forwarded"),
            (real_ip(), "x-real-ip"),
        ] {
            let request = request(&expected.to_string(), name, &lines);
            prop_assert_eq!(client(&extractor, &request), expected);
        }
    }

    #[test]
    fn what_a_client_prepends_to_x_forwarded_for_does_not_change_its_address(
        prepended in vec(line(), 0..4),
        on_the_same_line: bool,
        proxies in vec(select(PROXIES), 0..3),
    ) {
        let mut lines = prepended;
        append(&mut lines, "203.0.113.7", on_the_same_line);
        for proxy in &proxies {
            append(&mut lines, proxy, on_the_same_line);
        }
        let request = request("10.0.0.1", "x-forwarded-for", &lines);
        for extractor in [behind(), hops(proxies.len() + 1)] {
            prop_assert_eq!(client(&extractor, &request).to_string(), "203.0.113.7");
        }
    }

    #[test]
    fn what_a_client_prepends_to_forwarded_does_not_change_its_address(
        prepended in vec(line(), 0..4),
        on_the_same_line: bool,
        proxies in vec(select(PROXIES), 0..3),
        host in "[a-z,;=]{0,8}",
    ) {
        let element = |address: &str| format!("for=\"{address}\";host=\"{host}\";proto=https");
        let mut lines = prepended;
        append(&mut lines, &element("203.0.113.7"), on_the_same_line);
        for proxy in proxies {
            append(&mut lines, &element(proxy), on_the_same_line);
        }
        let request = request("10.0.0.1", "forwarded", &lines);
        prop_assert_eq!(client(&forwarded(), &request).to_string(), "203.0.113.7");
    }

    #[test]
    fn a_trusted_peer_can_send_anything(lines in vec(line(), 0..4)) {
        for (extractor, name) in [
            (behind(), "x-forwarded-for"),
            (hops(2), "x-forwarded-for"),
            (forwarded(), "forwarded"),
            (real_ip(), "x-real-ip"),
        ] {
            let request = request("10.0.0.1", name, &lines);
            prop_assert!(extractor.key((&request).into()).is_ok());
        }
    }
}

#[test]
fn the_longest_header_is_read_in_linear_time() {
    let rows = [
        ("x-forwarded-for", "10.0.0.2,", behind()),
        ("x-forwarded-for", ",", behind()),
        ("forwarded", "for=10.0.0.2,", forwarded()),
        ("forwarded", ";", forwarded()),
        ("forwarded", "\"", forwarded()),
        ("forwarded", "\\", forwarded()),
        ("forwarded", "\\\"", forwarded()),
    ];
    for (name, piece, extractor) in rows {
        // Quadratic time would be hours.
        let request = request("10.0.0.1", name, &[piece.repeat(4_000_000 / piece.len())]);
        assert_eq!(client(&extractor, &request).to_string(), "10.0.0.1");
    }
}
