//! Several rules: they are asked in order, and a request is charged to all of them or to none.

use http::Request;
use limiter_core::{Cost, Limiter as _, ManualClock, MemoryLimiter, Policy, Quota, Source};
use limiter_test::deferred::Deferred;
use limiter_tower::{
    ClientIp, OnMissing, RateLimitLayer,
    key::{FixedKey, KeyExtractor as _, key_fn},
    observe::Decisions,
    rule::{Disclosure, Mode, OnStoreFailure},
};
use tower::{Layer, service_fn};

use crate::{Body, header, hello, limiter_of, request_from, send, statuses};

type Limiter = MemoryLimiter<ManualClock>;

fn gcra(name: &str, permits: u64) -> Limiter {
    limiter_of(Policy::gcra(name, Quota::per_hour(permits))).0
}

/// Returns a layer that asks about the address, the account and the whole service.
fn three(address: &Limiter, account: &Limiter, global: &Limiter) -> RateLimitLayer {
    let by_account = key_fn(|head| Some(head.headers.get("x-account")?.as_bytes().into()));
    RateLimitLayer::new(address.clone(), ClientIp::peer(), OnMissing::Reject)
        .decisions()
        .and(account.clone(), by_account, OnMissing::Allow)
        .and(global.clone(), FixedKey::new("all"), OnMissing::Reject)
}

fn of_account(name: &str) -> Request<Body> {
    let mut request = request_from("192.0.2.1");
    request.headers_mut().insert("x-account", name.parse().unwrap());
    request
}

fn used(limiter: &Limiter, key: &str) -> u64 {
    limiter.peek(key).used()
}

fn used_by_address(limiter: &Limiter) -> u64 {
    limiter.peek(std::net::Ipv4Addr::new(192, 0, 2, 1)).used()
}

#[tokio::test]
async fn an_admitted_request_is_charged_to_every_rule() {
    let (address, account, global) = (gcra("address", 9), gcra("account", 9), gcra("global", 9));
    let service = three(&address, &account, &global).layer(service_fn(hello));
    let response = send(&service, of_account("acme")).await;
    assert_eq!(response.status(), 200);
    assert_eq!(used_by_address(&address), 1);
    assert_eq!(account.peek(b"acme").used(), 1);
    assert_eq!(used(&global, "all"), 1);
    let decisions = response.extensions().get::<Decisions>().unwrap();
    let names: Vec<_> = decisions.iter().map(|decided| decided.policy().name()).collect();
    assert_eq!(names, ["address", "account", "global"]);
    assert_eq!(decisions.get("global").unwrap().decision().remaining(), 8);
    assert!(decisions.get("other").is_none());
    let limits = header(response.headers(), "ratelimit").unwrap();
    assert_eq!(limits.matches(";r=8;").count(), 3, "{limits}");
}

#[tokio::test]
async fn a_later_refusal_refunds_the_earlier_charges() {
    let (address, account, global) = (gcra("address", 9), gcra("account", 9), gcra("global", 2));
    let service = three(&address, &account, &global).layer(service_fn(hello));
    for expected in [200, 200, 429, 429, 429] {
        assert_eq!(send(&service, of_account("acme")).await.status(), expected);
    }
    assert_eq!((used_by_address(&address), account.peek(b"acme").used()), (2, 2));
}

#[tokio::test]
async fn a_refusal_reports_the_rule_that_refused_and_asks_no_later_one() {
    let (address, account, global) = (gcra("address", 1), gcra("account", 9), gcra("global", 9));
    let service = three(&address, &account, &global).layer(service_fn(hello));
    send(&service, of_account("acme")).await;
    let refusal = send(&service, of_account("acme")).await;
    assert_eq!(refusal.status(), 429);
    assert_eq!(header(refusal.headers(), "ratelimit"), Some("\"address\";r=0;t=3600"));
    assert_eq!(header(refusal.headers(), "retry-after"), Some("3600"));
    assert_eq!(used(&global, "all"), 1);
}

/// A client that returned when the first limit said so was refused by the next one.
#[tokio::test]
async fn a_refusal_says_the_longest_wait_of_the_rules_that_know_theirs() {
    let by_address = |permits| {
        RateLimitLayer::new(gcra("address", permits), ClientIp::peer(), OnMissing::Reject)
    };
    let every = |quota: &str| limiter_of(Policy::parse("other", quota).unwrap()).0;
    let all = || FixedKey::new("all");
    let absent = || key_fn(|_| None).verified();
    let (one_a_day, log) = (|| every("1/d"), || every("1/2d by sliding-log"));
    for (layer, retry_after) in [
        (by_address(1), Some("3600")),
        (by_address(1).and(one_a_day(), all(), OnMissing::Reject), Some("86400")),
        (by_address(1).and(log(), all(), OnMissing::Reject), Some("172800")),
        // The first rule's wait is the longest.
        (by_address(1).and(every("1/min"), all(), OnMissing::Reject), Some("3600")),
        // A second rule that has room.
        (by_address(1).and(every("9/d"), all(), OnMissing::Reject), Some("3600")),
        // A key that all requests without one share.
        (by_address(1).and(one_a_day(), absent(), OnMissing::Shared), Some("86400")),
        // Those that are not enforced, count no such request, hide their waits, or need a round trip.
        (by_address(1).and(one_a_day(), absent(), OnMissing::Allow), Some("3600")),
        (by_address(1).and(one_a_day(), all(), OnMissing::Reject).mode(Mode::SHADOW), Some("3600")),
        (
            by_address(1).and(one_a_day(), all(), OnMissing::Reject).disclose(Disclosure::None),
            Some("3600"),
        ),
        (by_address(1).and(Deferred::new(one_a_day()), all(), OnMissing::Reject), Some("3600")),
        // No time helps a request that never fits the second rule.
        (
            by_address(1)
                .and(every("1/d"), all(), OnMissing::Reject)
                .cost(|head| if head.path() == "/batch" { Cost::of(2) } else { Cost::ONE }),
            None,
        ),
    ] {
        let service = layer.layer(service_fn(hello));
        assert_eq!(send(&service, request_from("192.0.2.1")).await.status(), 200);
        let mut request = request_from("192.0.2.1");
        if retry_after.is_none() {
            *request.uri_mut() = "/batch".parse().unwrap();
        }
        let refusal = send(&service, request).await;
        assert_eq!(refusal.status(), 429);
        assert_eq!(header(refusal.headers(), "retry-after"), retry_after);
        // The fields name the limit that refused, and never an earlier time.
        let time = retry_after.map_or_else(String::new, |seconds| format!(";t={seconds}"));
        let expected = format!("\"address\";r=0{time}");
        assert_eq!(header(refusal.headers(), "ratelimit"), Some(&*expected));
    }
}

#[tokio::test]
async fn a_rule_without_a_key_is_left_out_if_so_chosen() {
    let (address, account, global) = (gcra("address", 9), gcra("account", 1), gcra("global", 9));
    let service = three(&address, &account, &global).layer(service_fn(hello));
    assert_eq!(statuses(&service, 3).await, [200, 200, 200]);
    assert_eq!(used(&global, "all"), 3);
}

#[tokio::test]
async fn a_store_that_fails_in_a_later_rule_refunds_the_earlier_charges() {
    let (address, global) = (gcra("address", 9), Deferred::new(gcra("global", 9)));
    global.set_failing(true);
    let service = RateLimitLayer::new(address.clone(), ClientIp::peer(), OnMissing::Reject)
        .and(global.clone(), FixedKey::new("all"), OnMissing::Reject)
        .on_store_failure(OnStoreFailure::Deny)
        .layer(service_fn(hello));
    assert_eq!(statuses(&service, 2).await, [503, 503]);
    assert_eq!(used_by_address(&address), 0);
    global.set_failing(false);
    assert_eq!(statuses(&service, 1).await, [200]);
    assert_eq!(used_by_address(&address), 1);
}

#[cfg(feature = "tokio")]
#[tokio::test]
async fn a_refund_to_a_store_is_sent_though_nothing_polls_it() {
    let (account, global) = (Deferred::new(gcra("account", 9)), gcra("global", 1));
    let (layer, handle) = RateLimitLayer::new(account.clone(), ClientIp::peer(), OnMissing::Reject)
        .and(global, FixedKey::new("all"), OnMissing::Reject)
        .build();
    let service = layer.layer(service_fn(hello));
    assert_eq!(statuses(&service, 3).await, [200, 429, 429]);
    while account.refunds() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(handle.unsent_refunds(), 0);

    // A third one that fails is counted.
    let request = send(&service, request_from("192.0.2.1"));
    assert_eq!(request.await.status(), 429);
    account.set_failing(true);
    while handle.unsent_refunds() == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!((account.refunds(), handle.unsent_refunds()), (2, 1));
}

#[cfg(feature = "tokio")]
#[test]
fn a_refund_that_a_shutdown_interrupts_is_counted() {
    let (account, global) = (Deferred::new(gcra("account", 9)), gcra("global", 1));
    let (layer, handle) = RateLimitLayer::new(account.clone(), ClientIp::peer(), OnMissing::Reject)
        .and(global, FixedKey::new("all"), OnMissing::Reject)
        .build();
    let service = layer.layer(service_fn(hello));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let seen = runtime.block_on(statuses(&service, 2));
    assert_eq!(seen, [200, 429]);
    drop(runtime);
    assert_eq!(account.refunds() + handle.unsent_refunds(), 1);
}

#[tokio::test]
async fn rules_in_stores_decide_as_those_in_memory() {
    let (address, global) = (gcra("address", 2), gcra("global", 3));
    let [address, global] = [address, global].map(Deferred::new);
    let layer = RateLimitLayer::new(address, ClientIp::peer(), OnMissing::Reject).and(
        global.clone(),
        FixedKey::new("all"),
        OnMissing::Reject,
    );
    let service = layer.decisions().layer(service_fn(hello));
    assert_eq!(statuses(&service, 3).await, [200, 200, 429]);
    assert_eq!(global.peek(&"all".into()).await.unwrap().used(), 2);
    let decisions = send(&service, request_from("192.0.2.2")).await;
    let decisions = decisions.extensions().get::<Decisions>().unwrap();
    assert_eq!(decisions.get("global").unwrap().decision().source(), Source::State);
}

#[tokio::test]
async fn each_rule_has_its_cost() {
    let (bytes, requests) = (gcra("bytes", 1_000), gcra("requests", 10));
    let layer = RateLimitLayer::new(bytes.clone(), FixedKey::new("all"), OnMissing::Reject)
        .cost(|head| {
            let length = head.headers.get("content-length");
            let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
            Cost::new(length.unwrap_or(1)).unwrap_or(Cost::ONE)
        })
        .and(requests.clone(), FixedKey::new("all"), OnMissing::Reject);
    let service = layer.layer(service_fn(hello));
    for (length, status) in [(600, 200), (600, 429), (400, 200)] {
        let mut request = request_from("192.0.2.1");
        request.headers_mut().insert("content-length", length.into());
        assert_eq!(send(&service, request).await.status(), status, "{length} bytes");
    }
    assert_eq!((used(&bytes, "all"), used(&requests, "all")), (1_000, 2));
}

#[test]
fn two_rules_of_one_name_are_refused() {
    let layer = RateLimitLayer::new(gcra("api", 1), FixedKey::new("all"), OnMissing::Reject);
    let twice = std::panic::AssertUnwindSafe(|| {
        layer.and(gcra("api", 2), FixedKey::new("all"), OnMissing::Reject)
    });
    let message = std::panic::catch_unwind(twice).unwrap_err();
    let message = message.downcast_ref::<String>().unwrap();
    assert_eq!(message, "two rules have a policy or limit named \"api\"; rename one");
}
