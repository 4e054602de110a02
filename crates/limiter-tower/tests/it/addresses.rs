//! The client's address: a table for each rule.
//!
//! The client is 203.0.113.7, unless a row says otherwise, and 198.51.100.1 is what it pretends to be.
//! The proxies are in 10.0.0.0/24 and 2001:db8:a::/48.

mod forwarded;
mod key;
mod list;
mod networks;
mod peer;
mod properties;
mod router;
mod single;

use http::HeaderValue;

use crate::*;

/// A peer, the lines of a header field, and the client that they mean.
type Row = (&'static str, &'static [&'static str], &'static str);

const PROXIES: [&str; 2] = ["10.0.0.0/24", "2001:db8:a::/48"];

fn behind() -> ClientIp {
    ClientIp::behind(PROXIES).unwrap()
}

fn forwarded() -> ClientIp {
    ClientIp::forwarded(PROXIES).unwrap()
}

fn hops(number: usize) -> ClientIp {
    ClientIp::hops(number, PROXIES).unwrap()
}

fn real_ip() -> ClientIp {
    ClientIp::header(HeaderName::from_static("x-real-ip"), PROXIES).unwrap()
}

/// Returns a request of `peer`, with a line of the field `name` for each value.
fn request(peer: &str, name: &'static str, values: &[impl AsRef<[u8]>]) -> Request<()> {
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append(name, HeaderValue::from_bytes(value.as_ref()).unwrap());
    }
    let mut request = Request::new(());
    request.extensions_mut().insert(PeerAddr((peer.parse::<IpAddr>().unwrap(), 4711).into()));
    *request.headers_mut() = headers;
    request
}

#[track_caller]
fn assert_clients(extractor: &ClientIp, name: &'static str, rows: &[Row]) {
    for (peer, lines, client) in rows {
        let found = extractor.address(&request(peer, name, lines)).unwrap();
        assert_eq!(found.to_string(), *client, "{name}: {lines:?} from {peer}");
    }
}
