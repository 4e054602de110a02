//! Faults of a layer's setup: found when it is built where that is possible, and else by the first request.

use std::{
    panic::{catch_unwind, set_hook, take_hook},
    thread,
};

use limiter_core::{Algorithm, InFlight, Slots};
use limiter_redis::{
    CallError, RedisInFlight, RedisLimiter, ScriptCall, ScriptClient, ScriptReply,
};
use limiter_tower::key::MethodKey;

use crate::*;

fn header(name: &'static str) -> impl MaybeKey + use<> {
    HeaderKey::new(HeaderName::from_static(name)).assume_verified()
}

const TENANTS: [&str; 17] = [
    "x-0", "x-1", "x-2", "x-3", "x-4", "x-5", "x-6", "x-7", "x-8", "x-9", "x-10", "x-11", "x-12",
    "x-13", "x-14", "x-15", "x-16",
];

fn with<'h>(fields: impl IntoIterator<Item = &'h &'static str>) -> Request<Body> {
    let mut request = request();
    for name in fields {
        request.headers_mut().insert(HeaderName::from_static(name), "a".parse().unwrap());
    }
    request
}

/// A real file of limits has 17, of which a request meets a few.
#[tokio::test]
async fn a_list_may_be_longer_than_a_decision() {
    let rules = TENANTS.map(|name| Rule::new(hourly(name, 9), header(name).or_skip()));
    let service = layer_of(rules.clone()).layer(service_fn(hello));
    assert_eq!(send(&service, with(&TENANTS[..16])).await.status(), 200);
    // One that meets more is at fault of the server, and charged by none.
    assert_eq!(send(&service, with(&TENANTS)).await.status(), 500);
    for rule in &rules[..16] {
        assert_eq!(rule.peek(&b"a".into()).await.unwrap().used(), 1);
    }
    assert_eq!(rules[16].peek(&b"a".into()).await.unwrap().used(), 0);
}

/// Without a backtrace, the place in a panic's message is all that finds the layer.
#[test]
fn a_panic_names_the_place_of_the_invalid_layer() {
    let unverified = || HeaderKey::new(HeaderName::from_static("x-api-key")).or_reject();
    let (test, before) = (thread::current().id(), take_hook());
    let files = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&files);
    set_hook(Box::new(move |panic| {
        if thread::current().id() == test {
            seen.lock().unwrap().push(panic.location().unwrap().file().to_owned());
        } else {
            before(panic);
        }
    }));
    catch_unwind(|| drop(RateLimitLayer::all([]))).unwrap_err();
    catch_unwind(|| drop(RateLimitLayer::new(hourly("api", 9), unverified()))).unwrap_err();
    catch_unwind(|| drop(RateLimitLayer::from(Rule::new(hourly("api", 9), unverified()))))
        .unwrap_err();
    catch_unwind(|| drop(InFlightLayer::all([]))).unwrap_err();
    // A copy, because the hook locks the list when the assertion fails.
    let files = files.lock().unwrap().clone();
    assert_eq!(files, [file!(); 4]);
}

/// Header fields would have two members of one name.
#[tokio::test]
async fn a_plan_with_the_name_of_another_rule_is_not_asked() {
    let limiter = hourly("tenant", 9);
    let base = Plan::new(limiter.clone());
    let plan = |name: &str| base.with_policy(&Policy::gcra(name, Quota::per_hour(9))).unwrap();
    let (acme, address) = (plan("acme"), plan("address"));
    let tenant = Rule::new(limiter.clone(), header("x-0").or_skip()).plan(move |head| {
        Some(if head.headers.contains_key("x-1") { address.clone() } else { acme.clone() })
    });
    let service = layer_of([tenant, by_address(hourly("address", 9))]).layer(service_fn(hello));
    assert_eq!(send(&service, with(&["x-0"])).await.status(), 200);
    assert_eq!(send(&service, with(&["x-0", "x-1"])).await.status(), 500);
    assert_eq!(limiter.peek(b"a").used(), 1);
}

/// A connection to Redis on which nothing is ever answered.
#[derive(Clone, Debug)]
struct Silent;

impl ScriptClient for Silent {
    async fn run(&self, _: &ScriptCall, _: Duration) -> Result<ScriptReply, CallError> {
        std::future::pending().await
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(task);
    }

    fn sleep(&self, _: Duration) -> impl Future<Output = ()> + Send + 'static {
        std::future::pending()
    }
}

const SECRET: &str = "a secret of some length";

fn in_redis(secret: Option<&str>) -> RedisLimiter<Silent> {
    let builder = RedisLimiter::builder(Policy::gcra("api", Quota::per_hour(9)));
    let builder = secret.into_iter().fold(builder, limiter_redis::Builder::key_secret);
    builder.build_on(Silent).unwrap()
}

fn in_flight_in_redis(secret: Option<&str>) -> RedisInFlight<Silent> {
    let builder = RedisInFlight::builder("api", 3);
    let builder = secret.into_iter().fold(builder, limiter_redis::RedisInFlightBuilder::key_secret);
    builder.build_on(Silent).unwrap()
}

#[test]
fn a_secret_key_needs_a_limiter_that_can_hide_it() {
    let keys: [Arc<dyn KeyExtractor>; 6] = [
        Arc::new(header("x-0").secret().or_reject()),
        Arc::new(header("x-0").or_reject().secret()),
        Arc::new(header("x-0").or(ClientIp::peer().secret())),
        Arc::new(header("x-0").or_try(header("x-1").secret()).or_shared()),
        Arc::new((MethodKey, ClientIp::peer().secret().assume_verified())),
        Arc::new(header("x-0").secret().shared().or_skip()),
    ];
    let expected = "the rule \"api\" has a secret key, which its limiter can't hide: the key is a secret, which is \
                    stored as a keyed digest only: set Builder::key_secret to the same value in all processes";
    for (place, key) in keys.into_iter().enumerate() {
        let key = || Arc::clone(&key);
        let error = RateLimitLayer::try_new(in_redis(None), key()).unwrap_err();
        assert_eq!(error.to_string(), expected, "{place}");
        let error = InFlightLayer::try_new(in_flight_in_redis(None), key()).unwrap_err();
        assert_eq!(error.to_string(), expected, "{place}");
        drop(RateLimitLayer::new(in_redis(Some(SECRET)), key()));
        drop(InFlightLayer::new(in_flight_in_redis(Some(SECRET)), key()));
        drop(RateLimitLayer::new(hourly("api", 9), key()));
    }
    drop(RateLimitLayer::new(in_redis(None), ClientIp::peer()));
}

/// `Retry-After` is in whole seconds, so it may name the next slot again and again, which has no permit.
#[test]
fn a_slot_that_a_client_could_miss_has_a_permit() {
    let paced = |permits: u64, slots: u32| {
        let quota = Quota::per_minute(permits);
        Policy::new("paced", Algorithm::SubWindows(Slots::strict(slots).paced()), quota).unwrap()
    };
    for (policy, is_valid) in [
        (paced(60, 60), true),
        (paced(59, 60), false),
        // Slots of ten seconds.
        (paced(5, 6), true),
        (Policy::sub_windows("loose", Quota::per_minute(5), Slots::strict(60)), true),
    ] {
        let rule = by_address(limiter_of(policy.clone()).0);
        let built = RateLimitLayer::try_all([rule]);
        assert_eq!(built.is_ok(), is_valid, "{policy:?}: {built:?}");
    }
    let error = RateLimitLayer::try_all([by_address(limiter_of(paced(59, 60)).0)]).unwrap_err();
    let expected = "the limit \"paced\" has fewer permits than slots of 1s: a client that waits for whole seconds could \
                    miss each slot with a permit; use at most 59 slots";
    assert_eq!(error.to_string(), expected);
    let rule = by_address(limiter_of(paced(60, 60)).0);
    assert_eq!(rule.set_policy(&paced(59, 60)).unwrap_err().to_string(), expected);
}

#[tokio::test]
async fn a_rule_is_shown_under_a_name_and_stored_under_its_limiters() {
    let block = Block::after(3).within(Duration::from_secs(60)).lasting(Duration::from_secs(60));
    let names = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&names);
    let rule = by_address(hourly("old", 9))
        .with_mode(Mode::SHADOW)
        .shown_as("new")
        .unwrap()
        .block(block)
        .unwrap()
        .observe(move |event| seen.lock().unwrap().push(event.rule.to_owned()));
    assert_eq!((rule.name(), rule.policy().name(), rule.mode()), ("new", "new", Mode::SHADOW));
    // Names of its states are taken, and the limiter's own is not shown.
    let taken = RateLimitLayer::try_all([rule.clone(), by_address(hourly("old-strikes", 9))]);
    assert!(taken.unwrap_err().to_string().contains("\"old-strikes\""));
    let in_flight = InFlight::new("old", 3).unwrap();
    let in_flight = InFlightRule::new(in_flight, ClientIp::peer()).shown_as("new").unwrap();
    let inner = InFlightLayer::all([in_flight.clone()]).layer(service_fn(hello));
    rule.set_mode(Mode::ENFORCE);
    let layer = RateLimitLayer::all([rule.clone(), by_address(hourly("old", 9))]);
    let response = layer.any_body().layer(inner).oneshot(request()).await.unwrap();
    let fields: Vec<_> = response.headers().get_all("ratelimit-policy").iter().collect();
    assert_eq!(
        fields,
        ["\"new\";q=3;qu=\"concurrent-requests\"", "\"new\";q=9;w=3600, \"old\";q=9;w=3600"]
    );
    assert_eq!((&**names.lock().unwrap(), in_flight.name()), (&["new".to_owned()][..], "new"));
    assert!(rule.clone().shown_as("").is_err() && in_flight.shown_as("").is_err());
}
