//! How requests are sent: the same way for every service.

use std::{
    convert::Infallible,
    hint::black_box,
    net::{Ipv4Addr, SocketAddr},
    pin::pin,
    task::{Context, Poll, Waker},
};

use axum::{body::Body, extract::ConnectInfo};
use http::{HeaderValue, Request, Response, StatusCode, header::CONTENT_TYPE};
use tower::Service;

/// How many addresses send requests.
pub const ADDRESSES: u32 = 10_000;

/// Which service receives the requests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// A clone for each request, as axum and hyper's tower adapter do.
    Clone,
    /// The same one.
    Same,
}

/// A service that requests are sent to.
pub trait Subject: Sync {
    /// Sends one request for each of the addresses, and returns how many were refused.
    fn send(&self, call: Call, addresses: &mut dyn Iterator<Item = SocketAddr>) -> usize;
}

impl<S, R> Subject for S
where
    S: Service<Request<Body>, Response = Response<R>, Error = Infallible> + Clone + Sync,
{
    fn send(&self, call: Call, addresses: &mut dyn Iterator<Item = SocketAddr>) -> usize {
        let mut service = self.clone();
        let mut refused = 0;
        for address in addresses {
            let mut request = Request::new(Body::empty());
            request.extensions_mut().insert(ConnectInfo(address));
            let response = match call {
                Call::Clone => respond(&mut service.clone(), request),
                Call::Same => respond(&mut service, request),
            };
            refused += usize::from(response.status() == StatusCode::TOO_MANY_REQUESTS);
            drop(black_box(response));
        }
        refused
    }
}

/// Calls a service whose futures never wait, because its limiter is in memory.
fn respond<S: Service<Request<Body>, Error = Infallible>>(
    service: &mut S,
    request: Request<Body>,
) -> S::Response {
    let mut context = Context::from_waker(Waker::noop());
    assert!(service.poll_ready(&mut context).is_ready(), "the service is not ready");
    match pin!(service.call(request)).poll(&mut context) {
        Poll::Ready(Ok(response)) => response,
        Poll::Pending => panic!("a layer with a limiter in memory has waited"),
    }
}

/// The inner service: returns a response at once.
#[derive(Clone, Copy)]
pub enum Inner {
    /// Without header fields, so that a layer's first field allocates the header map.
    Empty,
    /// With a `content-type`.
    ContentType,
}

impl Service<Request<Body>> for Inner {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        drop(black_box(request));
        let mut response = Response::new(Body::empty());
        if let Self::ContentType = self {
            let value = HeaderValue::from_static("application/json");
            response.headers_mut().insert(CONTENT_TYPE, value);
        }
        std::future::ready(Ok(response))
    }
}

/// Returns the addresses in the order in which they send requests: random, the same in each run.
#[must_use]
pub fn addresses() -> Vec<SocketAddr> {
    let address = |host| SocketAddr::from((Ipv4Addr::from_bits(0x0A00_0000 + host), 40_000));
    let mut addresses: Vec<SocketAddr> = (0..ADDRESSES).map(address).collect();
    // Sorted by a hash of the address: Fibonacci's, of which the high bits are random enough.
    addresses.sort_by_key(|address| match address.ip() {
        std::net::IpAddr::V4(ip) => ip.to_bits().wrapping_mul(0x9E37_79B9).swap_bytes(),
        std::net::IpAddr::V6(_) => 0,
    });
    addresses
}
