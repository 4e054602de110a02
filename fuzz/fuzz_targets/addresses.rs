//! Any header fields about proxies: an address is read, and an untrusted peer is always the client.

#![no_main]

use http::{HeaderValue, Request, header::HeaderName};
use libfuzzer_sys::fuzz_target;
use limiter_tower::{ClientIp, key::PeerAddr};

const TRUSTED: [&str; 2] = ["10.0.0.0/8", "2001:db8::/32"];

fuzz_target!(|bytes: &[u8]| {
    // Each field may have several lines.
    let lines = || bytes.split(|byte| *byte == b'\n').map(HeaderValue::from_bytes);
    let single = HeaderName::from_static("cf-connecting-ip");
    for (name, clients) in [
        ("x-forwarded-for", ClientIp::behind(TRUSTED)),
        ("x-forwarded-for", ClientIp::hops(2, TRUSTED)),
        ("forwarded", ClientIp::forwarded(TRUSTED)),
        ("cf-connecting-ip", ClientIp::header(single, TRUSTED)),
    ] {
        let clients = clients.expect("the networks are valid");
        for (peer, is_trusted) in [([10, 0, 0, 1], true), ([192, 0, 2, 1], false)] {
            let mut request = Request::new(());
            request.extensions_mut().insert(PeerAddr((peer, 4711).into()));
            for value in lines().flatten() {
                request.headers_mut().append(name, value);
            }
            let address = clients.address(&request).expect("there is a peer");
            assert!(is_trusted || address == std::net::IpAddr::from(peer), "{name}: {address}");
            let _ = clients.key_of(address);
        }
    }
});
