//! Rate limit layers beside each other, in front of a service that responds at once.

use std::{
    convert::Infallible,
    hint::black_box,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use anyhow::Result;
use axum::{Router, body::Body, extract::ConnectInfo, response::IntoResponse, routing::Route};
use http::{HeaderValue, Request, Response, StatusCode, header::CONTENT_TYPE};
use limiter_core::{MemoryLimiter, Policy, Quota};
use limiter_tower::{
    Answers, ClientIp, RateLimitLayer, Rule,
    headers::Headers,
    key::{FixedKey, MethodKey},
};
use tower::{Layer, Service, service_fn, util::ServiceFn};
use tower_governor::{GovernorLayer, governor::GovernorConfigBuilder};

use crate::{
    by_hand,
    rounds::{Effort, Table, keyed, rounds},
};

/// How layers and the inner service are configured.
#[derive(Clone, Copy)]
struct Setup {
    /// Whether responses carry header fields about the limit. Then the inner response has one already, as most have:
    /// otherwise a layer's first one allocates the map.
    headers: bool,
    /// Whether all requests are refused; otherwise all are admitted.
    refuses: bool,
    /// Whether the layer is around a route of axum's router.
    in_router: bool,
}

const PLAIN: Setup = Setup { headers: false, refuses: false, in_router: false };
const FIELDS: Setup = Setup { headers: true, ..PLAIN };
const REFUSED: Setup = Setup { headers: true, refuses: true, ..PLAIN };

const CELLS: [(&str, Setup, usize); 8] = [
    ("admitted", PLAIN, 1),
    ("admitted", PLAIN, 2),
    ("admitted, fields", FIELDS, 1),
    ("admitted, fields", FIELDS, 2),
    ("refused, fields", REFUSED, 1),
    ("router, admitted", Setup { in_router: true, ..PLAIN }, 1),
    ("router, admitted, fields", Setup { in_router: true, ..FIELDS }, 1),
    ("router, refused, fields", Setup { in_router: true, ..REFUSED }, 1),
];

/// Handles a request of an address, and returns whether it was admitted.
type Subject = Box<dyn Fn(SocketAddr) -> bool + Sync>;

/// Prints a row for each cell, and a column for each layer.
pub(crate) fn print(effort: &Effort) -> Result<()> {
    println!(
        "ns of processor time that a layer adds to a request: the median of {} rounds ± half the interquartile range. \
         Each request is sent to a clone of the service, as axum does. Requests have one of {ADDRESSES} addresses, by which \
         the layers limit: 10,000/s, or 1/h for refusals. *By hand* is the least over limiter-core. *Fields* are header fields about the limit, which axum-governor \
         always sends. A *router* is axum's. The last column is limiter-tower's ratio to {REFERENCE}.\n",
        effort.rounds
    );
    let addresses = addresses();
    let names = subjects(PLAIN).map(|(name, _)| name);
    let head = ["request", "threads", BARE].into_iter().chain(names).chain(["ratio"]);
    let mut table = Table::new(head);
    for (name, setup, threads) in CELLS {
        let bare = (BARE, in_front(tower::layer::util::Identity::new(), setup));
        let subjects = [bare].into_iter().chain(subjects(setup));
        let subjects = subjects.filter_map(|(name, subject)| Some((name, subject?)));
        let contenders = subjects.map(|(name, subject)| {
            let admits = name == BARE || !setup.refuses;
            keyed(name, effort, threads, Some(admits), &addresses, move |it| subject(*it))
        });
        let measured = rounds(effort.rounds, contenders.collect())?;
        let bare = &measured[0].figures[0];
        let added = |name| {
            let layer = measured.iter().find(|it| it.name == name)?;
            Some(layer.figures[0].minus(bare))
        };
        let mut row = vec![name.to_owned(), threads.to_string(), bare.show(0)];
        row.extend(names.map(|name| added(name).map_or("-".to_owned(), |ns| ns.show(0))));
        let ratio = added(OURS).zip(added(REFERENCE)).map(|(ours, other)| ours.over(&other));
        row.extend(ratio.map(|ratio| ratio.show(2)));
        table.row(row);
    }
    println!("{table}");
    Ok(())
}

const BARE: &str = "bare service";
const OURS: &str = "limiter-tower";

/// The layer that the ratio refers to.
const REFERENCE: &str = "tower_governor";

/// Returns the layers that have such a setting. tower-rate-limit-fred is not here, because its layer waits for a server.
fn subjects(setup: Setup) -> [(&'static str, Option<Subject>); 7] {
    [
        // The least that a layer over our limiter can cost.
        ("by hand", in_front(by_hand::layer(limiter(setup), setup.headers), setup)),
        (OURS, in_front(ours(setup), setup)),
        ("with decisions", in_front(ours(setup).decisions(), setup)),
        ("three rules", in_front(three_rules(setup), setup)),
        (REFERENCE, tower_governor(setup)),
        ("axum-governor", axum_governor(setup)),
        ("rate-net", rate_net(setup)),
    ]
}

/// Returns the inner service behind a layer, in a router if the setup says so.
fn in_front<L, R>(layer: L, setup: Setup) -> Option<Subject>
where
    L: Layer<Inner> + Layer<Route> + Clone + Send + Sync + 'static,
    <L as Layer<Inner>>::Service:
        Service<Request<Body>, Response = Response<R>, Error = Infallible> + Clone + Sync + 'static,
    <L as Layer<Route>>::Service: Service<Request<Body>, Response: IntoResponse, Error: Into<Infallible>, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static,
{
    Some(match setup.in_router {
        true => subject(Router::new().route_service("/", inner(setup)).layer(layer)),
        false => subject(Layer::<Inner>::layer(&layer, inner(setup))),
    })
}

fn limiter(setup: Setup) -> MemoryLimiter {
    let quota = if setup.refuses { Quota::per_hour(1) } else { Quota::per_second(10_000) };
    MemoryLimiter::new(Policy::gcra("default", quota))
}

fn ours(setup: Setup) -> RateLimitLayer {
    let layer = RateLimitLayer::new(limiter(setup), ClientIp::peer());
    if setup.headers { layer } else { layer.answers(Answers::new().headers(Headers::None)) }
}

/// By address, by method, and for all requests. The last two admit everything.
fn three_rules(setup: Setup) -> RateLimitLayer {
    const MOST: Quota = Quota::per_second(5_000_000).with_burst(5_000_000);
    let most = |name| MemoryLimiter::new(Policy::gcra(name, MOST));
    let layer = RateLimitLayer::all([
        Rule::new(limiter(setup), ClientIp::peer()),
        Rule::new(most("method"), MethodKey),
        Rule::new(most("all"), FixedKey::new("all")),
    ]);
    if setup.headers { layer } else { layer.answers(Answers::new().headers(Headers::None)) }
}

fn tower_governor(setup: Setup) -> Option<Subject> {
    let mut config = GovernorConfigBuilder::default();
    if setup.refuses {
        config.period(Duration::from_secs(3_600)).burst_size(1);
    } else {
        config.period(Duration::from_micros(100)).burst_size(10_000);
    }
    match setup.headers {
        true => in_front(GovernorLayer::new(config.use_headers().finish()?), setup),
        false => in_front(GovernorLayer::new(config.finish()?), setup),
    }
}

/// axum-governor always sends header fields.
fn axum_governor(setup: Setup) -> Option<Subject> {
    use axum_governor::{GovernorConfigBuilder, GovernorLayer, Quota, extractor::PeerIp, nz};
    if !setup.headers {
        return None;
    }
    let quota = if setup.refuses {
        Quota::requests_per_hour(nz!(1_u32))
    } else {
        Quota::requests_per_second(nz!(10_000_u32))
    };
    let config = GovernorConfigBuilder::default()
        .with_extractor(PeerIp::default())
        .expect_connect_info()
        .quota_default(quota)
        // Its sweep needs a tokio runtime.
        .gc_disable()
        .finish();
    in_front(GovernorLayer::new(config.ok()?), setup)
}

/// rate-net sends three header fields. It sends five if its policy has a name.
fn rate_net(setup: Setup) -> Option<Subject> {
    use rate_net::{
        Key, Quota, RateLimiter,
        tower::{RateLimitLayer, RequestInfo},
    };
    let quota = if setup.refuses {
        Quota::rate(1, Duration::from_secs(3_600)).ok()?
    } else {
        Quota::per_second(10_000)
    };
    // Its `PeerIp` does not read axum's `ConnectInfo`. This is what `PeerIp` does with an address.
    let peer = |request: &RequestInfo<'_>| {
        let ConnectInfo(peer) = request.extensions().get::<ConnectInfo<SocketAddr>>()?;
        Some(Key::ip_prefix(peer.ip(), 32, 64))
    };
    let layer = RateLimitLayer::new(RateLimiter::with_quota(quota), peer)
        .with_headers_on_success(setup.headers);
    in_front(layer, setup)
}

type Ready = std::future::Ready<Result<Response<Body>, Infallible>>;
type Inner = ServiceFn<fn(Request<Body>) -> Ready>;

/// Returns the inner service.
fn inner(setup: Setup) -> Inner {
    fn empty(request: Request<Body>) -> Ready {
        drop(black_box(request));
        std::future::ready(Ok(Response::new(Body::empty())))
    }
    fn with_a_field(request: Request<Body>) -> Ready {
        drop(black_box(request));
        let mut response = Response::new(Body::empty());
        let value = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, value);
        std::future::ready(Ok(response))
    }
    service_fn(if setup.headers { with_a_field } else { empty })
}

/// Sends each request to a clone of a service whose futures never wait, because its limiter is in memory.
fn subject<S, R>(service: S) -> Subject
where
    S: Service<Request<Body>, Response = Response<R>, Error = Infallible> + Clone + Sync + 'static,
{
    Box::new(move |address| {
        let mut service = service.clone();
        let mut request = Request::new(Body::empty());
        request.extensions_mut().insert(ConnectInfo(address));
        let mut context = Context::from_waker(Waker::noop());
        assert!(service.poll_ready(&mut context).is_ready(), "the service is not ready");
        match pin!(service.call(request)).poll(&mut context) {
            Poll::Ready(Ok(response)) => {
                black_box(response).status() != StatusCode::TOO_MANY_REQUESTS
            }
            Poll::Pending => panic!("a layer with a limiter in memory has waited"),
        }
    })
}

const ADDRESSES: u32 = 10_000;

/// Returns the addresses in the order in which they send requests: random, the same in each run.
fn addresses() -> Vec<SocketAddr> {
    let mut hosts: Vec<u32> = (0..ADDRESSES).collect();
    hosts.sort_by_key(|host| host.wrapping_mul(0x9E37_79B9).swap_bytes());
    let address = |host| IpAddr::V4(Ipv4Addr::from_bits(0x0A00_0000 + host));
    hosts.into_iter().map(|host| SocketAddr::new(address(host), 40_000)).collect()
}
