//! What one client can't do to others.

use http::header::AUTHORIZATION;

use crate::*;

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// All orders of a list of three.
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// How many requests an address has.
const OWN: u64 = 3;

fn stored(name: &str, permits: u64) -> Deferred {
    Deferred::new(hourly(name, permits)).at_once()
}

fn by_key(limiter: impl Limiter + 'static) -> Rule {
    Rule::new(limiter, HeaderKey::new(API_KEY).or_skip())
}

/// Returns a request with the API key of another client.
fn with_the_victims_key() -> Request<Body> {
    with(request(), "x-api-key", "victim")
}

async fn used(rule: &Rule, key: impl Into<Key<'_>>) -> u64 {
    rule.peek(&key.into()).await.unwrap().used()
}

/// Returns the rules by address, by API key and for the whole service. The first is in memory or in a store, and so are
/// the others.
fn three(address_in_memory: bool, others_in_memory: bool) -> [Rule; 3] {
    let address = match address_in_memory {
        true => by_address(hourly("address", OWN)),
        false => by_address(stored("address", OWN)),
    };
    let (keyed, global) = ("keyed", "global");
    match others_in_memory {
        true => [address, by_key(hourly(keyed, 100)), for_all(hourly(global, 100))],
        false => [address, by_key(stored(keyed, 100)), for_all(stored(global, 100))],
    }
}

/// Neither by requests that are refused, nor by those that are dropped after a few polls, as those of a client of HTTP/2
/// that resets its streams: its own rule is asked first, so its key pays for each request that reaches another one.
#[tokio::test]
async fn a_client_over_its_limit_drains_no_other_key() {
    for (in_memory, others_in_memory) in
        [(true, true), (true, false), (false, true), (false, false)]
    {
        for (polls, order) in
            [None, Some(1), Some(2), Some(3)].into_iter().flat_map(|it| ORDERS.map(|by| (it, by)))
        {
            let rules = three(in_memory, others_in_memory);
            let mut service = layer_of(in_order(&rules, order)).layer(service_fn(hello));
            let mut admitted = 0;
            for _ in 0..50 {
                let ready = service.ready().await.unwrap();
                let mut call = Box::pin(ready.call(with_the_victims_key()));
                match polls {
                    None => admitted += u64::from(call.await.unwrap().status() == 200),
                    Some(polls) => drop((0..polls).find_map(|_| poll_once(call.as_mut()))),
                }
            }
            let drained = (used(&rules[1], b"victim").await, used(&rules[2], "all").await);
            let case = format!("{in_memory} {others_in_memory} {order:?} {polls:?}: {drained:?}");
            assert!(drained.0 <= OWN && drained.1 <= OWN, "{case}");
            assert!(polls.is_some() || (admitted, drained) == (OWN, (OWN, OWN)), "{case}");
        }
    }
}

fn in_order(rules: &[Rule; 3], order: [usize; 3]) -> [Rule; 3] {
    order.map(|at| rules.get(at).unwrap().clone())
}

/// HTTP/2 lets a client reset a stream at once. Were it refunded, its address would never be limited, and the store
/// would get all the load.
#[tokio::test]
async fn a_client_that_disconnects_during_a_check_stays_charged() {
    for in_memory in [false, true] {
        let rules = three(in_memory, false);
        let mut service = layer_of([rules[0].clone(), rules[2].clone()]).layer(service_fn(hello));
        let request = request();
        let key = rules[0].key(&request).unwrap();
        for reset in 1..=OWN {
            let mut call = Box::pin(service.ready().await.unwrap().call(request.clone()));
            // The first store was asked by the call.
            if !in_memory {
                assert!(poll_once(call.as_mut()).is_none());
            }
            drop(call);
            assert_eq!(used(&rules[2], "all").await, reset);
            assert_eq!(used(&rules[0], key.clone()).await, reset, "in memory: {in_memory}");
        }
        assert_eq!(send(&service, request.clone()).await.status(), 429);
        assert_eq!(used(&rules[2], "all").await, OWN);
    }
}

/// A second line of the header field skips no rule, whatever its mode.
#[tokio::test]
async fn a_key_sent_twice_is_rejected_by_a_sample_and_forwarded_by_a_shadow() {
    let modes = [
        (Mode::ENFORCE, 400),
        (Mode::sample(99).unwrap(), 400),
        (Mode::sample(1).unwrap(), 400),
        (Mode::SHADOW, 200),
    ];
    for (mode, status) in modes {
        let keyed = by_key(hourly("keyed", 100)).with_mode(mode);
        let verified = HeaderKey::new(API_KEY).assume_verified().or_shared();
        let alone = Rule::new(hourly("alone", 100), verified).with_mode(mode);
        for layer in [layer_of([keyed, by_address(hourly("address", 9))]), layer_of([alone])] {
            let service = layer.layer(service_fn(hello));
            let twice = with(with_the_victims_key(), "x-api-key", "another");
            assert_eq!(send(&service, twice).await.status(), status, "{mode:?}");
        }
    }
}

/// RFC 9110, section 11.4: the scheme is case-insensitive, and one or more spaces follow it.
#[tokio::test]
async fn spellings_of_the_scheme_of_an_authorization_are_one_key() {
    let key = HeaderKey::new(AUTHORIZATION).assume_verified().or_reject();
    let service = layer_of([Rule::new(hourly("token", 1), key)]).layer(service_fn(hello));
    for (value, status) in [
        ("Bearer x", 200),
        ("Bearer x", 429),
        ("bearer  x", 429),
        ("BEARER   x", 429),
        // Credentials are not.
        ("Bearer X", 200),
        ("Basic x", 200),
        ("Bearerx", 200),
        ("Bearer", 200),
    ] {
        let request = with(request(), "authorization", value);
        assert_eq!(send(&service, request).await.status(), status, "{value:?}");
    }
}
