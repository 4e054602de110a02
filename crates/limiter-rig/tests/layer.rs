//! The layer over limiters in Redis: refunds and delays reach the server, or the lease that was charged.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::{
    collections::BTreeSet,
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use axum::body::Body;
use futures::future::join_all;
use http::{Request, Response};
use limiter_core::{
    Block, Cost, Decision, Error, ErrorKind, Key, Limiter as _, LimiterFuture, MemoryLimiter,
    Policy, Quota, Source, Usage,
};
use limiter_redis::{
    Builder, ConnectOptions, Connection, Counters, RedisInFlight, RedisLimiter, connect_with,
};
use limiter_rig::{log::Log, server::Server};
use limiter_test::fake::Fake;
use limiter_tower::{
    Answers, InFlightRule, RateLimitLayer, Rule,
    headers::Headers,
    key::{FixedKey, KeyExtractor},
};
use tower::{Layer, Service, ServiceExt, service_fn};

type Limiter = RedisLimiter<Connection>;

/// Returns a builder of a limiter that waits for replies as long as a busy machine needs.
fn builder(policy: Policy) -> Builder {
    RedisLimiter::builder(policy).deadline(Duration::from_secs(10))
}

async fn limiter(server: &Server, policy: Policy) -> Limiter {
    builder(policy).connect(&server.url()).await.unwrap()
}

/// Returns the key of one client, which sends all requests.
fn alice() -> impl KeyExtractor {
    FixedKey::new("alice").assume_verified()
}

fn everyone() -> FixedKey {
    FixedKey::new("everyone")
}

async fn respond(_: Request<Body>) -> Result<Response<Body>, Infallible> {
    Ok(Response::new(Body::empty()))
}

async fn send<S, B>(service: &S) -> Response<B>
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible> + Clone,
{
    service.clone().oneshot(Request::new(Body::empty())).await.unwrap()
}

async fn status<S, B>(service: &S) -> u16
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible> + Clone,
{
    send(service).await.status().as_u16()
}

/// Returns how often the server ran a script.
fn calls(server: &Server) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]).unwrap();
    let lines = stats.lines().filter(|line| line.starts_with("cmdstat_eval"));
    let calls = |line: &str| line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok();
    lines.filter_map(calls).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_refusal_gives_leased_permits_back_without_a_call() {
    const TASKS: u64 = 20;
    const ADMITTED: u64 = 100;
    const REFUSED: u64 = 2_000;
    let narrow = Policy::gcra("narrow", Quota::per_day(ADMITTED));
    let other = Server::start();
    let by_redis = builder(narrow.clone()).denial_cache(0).connect(&other.url()).await.unwrap();
    // In memory, a permit is held for microseconds; through Redis, for a round trip.
    let narrows: [Arc<dyn limiter_core::Limiter>; 2] =
        [Arc::new(MemoryLimiter::new(narrow)), Arc::new(by_redis)];
    for narrow in narrows {
        let (server, store) = (Server::start(), narrow.store());
        // No permit recovers during the test.
        let wide = Quota::new(300_000, Duration::from_secs(18_000)).unwrap();
        let wide = builder(Policy::fixed_window("wide", wide));
        let wide = wide.lease(true).connect(&server.url()).await.unwrap();
        let rules = [Rule::new(wide.clone(), everyone()), Rule::new(narrow, everyone())];
        let service = RateLimitLayer::all(rules.clone())
            .answers(Answers::new().headers(Headers::RateLimit))
            .layer(service_fn(respond));

        for _ in 0..ADMITTED {
            let response = send(&service).await;
            assert_eq!(response.status(), 200, "{store}");
            for name in ["ratelimit-policy", "ratelimit"] {
                let field = response.headers()[name].to_str().unwrap();
                let has_both = field.contains("\"wide\";") && field.contains("\"narrow\";");
                assert!(has_both, "{store}: {name}: {field}");
            }
        }

        let before = calls(&server);
        let tasks = (0..TASKS).map(|_| {
            let service = service.clone();
            tokio::spawn(async move {
                for _ in 0..REFUSED / TASKS {
                    assert_eq!(status(&service).await, 429);
                }
            })
        });
        join_all(tasks).await.into_iter().for_each(Result::unwrap);
        // Refunds by calls would be under way until then.
        wide.drain(Duration::from_secs(10)).await.unwrap();
        let used = wide.peek("everyone").await.unwrap().used();
        let (calls, counters) = (calls(&server) - before, wide.counters());
        assert_eq!(rules.each_ref().map(Rule::unsent), [0, 0]);
        println!("{store}: {calls} calls for {REFUSED} refusals, {used} used, {counters:?}");
        // If each refund were a call, there would be 2,000.
        assert!(calls < REFUSED / 20, "{store}: {calls} calls");
        let Counters { lease_permits, leased, lease_unused, lease_returned, .. } = counters;
        assert_eq!(lease_permits, leased + lease_unused + lease_returned, "{store}");
        // If no permit was returned, 2,100 would be used. A refund to a lease that has ended gives nothing back.
        let most = ADMITTED + lease_unused + REFUSED / 2;
        assert!((ADMITTED..=most).contains(&used), "{store}: {used} used, at most {most} expected");
    }
}

/// Its keys in Redis have the names of its limiters.
#[tokio::test]
async fn a_renamed_rule_keeps_its_states_blocks_and_permits() {
    let server = Server::start();
    let key = "alice".into();
    let (mut keys, mut permits) = (Vec::new(), Vec::new());
    for (name, expected) in [("before", [200, 429]), ("after", [429, 429])] {
        let options = ConnectOptions::new().with_name(name);
        let connection = connect_with(&server.url(), &options).await.unwrap();
        let limiter = builder(Policy::gcra("login", Quota::per_day(1))).denial_cache(0);
        let rule = Rule::new(limiter.build_on(connection.clone()).unwrap(), alice());
        let rule = rule.shown_as(name).unwrap().block(Block::after(1)).unwrap();
        let in_flight = RedisInFlight::builder("uploads", 1).build_on(connection).unwrap();
        let in_flight = InFlightRule::new(in_flight, alice()).shown_as(name).unwrap();
        let service = RateLimitLayer::all([rule.clone()]).layer(service_fn(respond));
        assert_eq!([status(&service).await, status(&service).await], expected);
        until_blocked(&rule, &key).await;
        permits.push(in_flight.enter(&key).await);
        let found = server.command(&["KEYS", "*"]).unwrap();
        keys.push(found.lines().map(str::to_owned).collect::<BTreeSet<_>>());
    }
    assert_eq!([permits[0].is_ok(), permits[1].is_ok()], [true, false]);
    assert_eq!(keys[0], keys[1]);
}

/// Strikes that are counted in tasks of their own take a while.
async fn until_blocked(rule: &Rule, key: &Key<'_>) {
    let start = Instant::now();
    while rule.blocked_for(key).await.unwrap().is_zero() {
        assert!(start.elapsed() < Duration::from_secs(10), "not blocked");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn rules_of_siblings_and_a_block_are_one_call() {
    let server = Server::start();
    let users = limiter(&server, Policy::gcra("users", Quota::per_day(9))).await;
    let all = users.sibling(&Policy::fixed_window("all", Quota::per_day(9))).unwrap();
    let tokens = users.sibling(&Policy::gcra("tokens", Quota::per_day(9_000))).unwrap();
    let layer = RateLimitLayer::all([
        Rule::new(users, alice()).block(Block::after(100)).unwrap(),
        Rule::new(tokens, alice()).cost(|_| Cost::of(1_200)),
        Rule::new(all, everyone()),
    ]);
    let service = layer.layer(service_fn(respond));
    // The scripts are loaded by the first request.
    assert_eq!(status(&service).await, 200);
    let before = calls(&server);
    for _ in 0..5 {
        assert_eq!(status(&service).await, 200);
    }
    assert_eq!(calls(&server) - before, 5);
    // Of 9,000 tokens, 8,400 would be used by seven requests.
    assert_eq!([status(&service).await, status(&service).await], [200, 429]);
}

#[tokio::test]
async fn processes_share_a_block_and_a_reset_lifts_it() {
    let server = Server::start();
    let block = Block::after(3).within(Duration::from_secs(600)).lasting(Duration::from_secs(300));
    let mut rules = Vec::new();
    for number in 0..2 {
        let options = ConnectOptions::new().with_name(&format!("process-{number}"));
        let connection = connect_with(&server.url(), &options).await.unwrap();
        let limiter = builder(Policy::gcra("login", Quota::per_day(2))).denial_cache(0);
        let limiter = limiter.build_on(connection).unwrap();
        rules.push(Rule::new(limiter, alice()).block(block).unwrap());
    }
    let service = |rule: &Rule| RateLimitLayer::all([rule.clone()]).layer(service_fn(respond));
    let [one, other] = &[service(&rules[0]), service(&rules[1])];
    for (service, expected) in [(one, 200), (other, 200), (one, 429), (other, 429), (one, 429)] {
        assert_eq!(status(service).await, expected);
    }
    let key = "alice".into();
    for rule in &rules {
        until_blocked(rule, &key).await;
        assert!(rule.blocked_for(&key).await.unwrap() > Duration::from_secs(290));
    }
    let refused = send(other).await;
    let wait: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    // That of the limit, which is longer than the block.
    assert!(wait > 300, "{wait}");
    rules[0].reset(&key).await.unwrap();
    assert_eq!([status(other).await, status(one).await, status(one).await], [200, 200, 429]);
    assert_eq!(rules.iter().map(Rule::unsent).sum::<u64>(), 0);
}

/// Permits of a lease are the store's, so an outage ends, and the next one begins, for a rule whose permits are leased.
#[tokio::test]
async fn an_admission_by_a_lease_ends_an_outage() {
    let log = Log::start();
    let fails = Arc::new(AtomicBool::new(true));
    let failing = Arc::clone(&fails);
    let policy = Policy::gcra("default", Quota::per_minute(10));
    let limiter = Fake::new(policy, move || {
        let leased = Decision::admitted(Usage::new(10, 9, Duration::from_secs(6)));
        LimiterFuture::ready(match failing.load(Ordering::Relaxed) {
            true => Err(Error::new(ErrorKind::Unavailable, "no connection")),
            false => Ok(leased.with_source(Source::Lease)),
        })
    });
    let service = RateLimitLayer::new(limiter, everyone()).layer(service_fn(respond));
    let begun = "WARN limiter_tower: rate limit store failed: no connection \
                 policy=\"default\" then=Allow";
    let over = "INFO limiter_tower: rate limit store recovered policy=\"default\"";
    let expected = [begun, over, begun];
    let start = Instant::now();
    for (line, fails_now) in [true, false, true].into_iter().enumerate() {
        fails.store(fails_now, Ordering::Relaxed);
        // An outage is over after a second without an error.
        while log.lines().len() == line {
            assert!(start.elapsed() < Duration::from_secs(60), "no outage begins or ends");
            send(&service).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(log.lines(), expected[..=line]);
    }
}
