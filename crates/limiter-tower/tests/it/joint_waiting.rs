//! A rule that waits, beside others.

use crate::*;

const ONE_SECOND: Duration = Duration::from_secs(1);

type Call = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>>>>;

/// Returns a rule of one request a second for each address, under which others wait for ten seconds at most. Returns its
/// limiter and its clock, too.
fn waiting() -> (Rule, Memory, ManualClock) {
    let (limiter, clock) = limiter_of(Policy::gcra("waiting", Quota::per_second(1)));
    let wait = Wait::up_to(ONE_SECOND * 10);
    (Rule::waiting(limiter.clone(), ClientIp::peer(), wait), limiter, clock)
}

/// Returns a limiter for all requests.
fn global(permits: u64) -> Memory {
    limiter_of(Policy::gcra("global", Quota::per_hour(permits))).0
}

fn used(waiting: &Memory, global: &Memory) -> (u64, u64) {
    (waiting.peek(CLIENT).used(), global.peek("all").used())
}

/// Sends a request, and polls it once.
async fn start(service: &(impl Served<Future: 'static> + 'static)) -> Call {
    let mut call: Call = Box::pin(service.clone().oneshot(request()));
    assert!(poll_once(call.as_mut()).is_none());
    call
}

/// Also if a store fails: then each rule is asked alone, and those before the one that waits have charged when it refuses.
#[tokio::test]
async fn nothing_else_is_charged_while_a_request_waits_and_then_the_rest_is_once() {
    let fails = || Some(Rule::new(failing("failing"), FixedKey::new("failing")));
    type Other = fn(Memory) -> Rule;
    let in_store: Other = |global| for_all(Deferred::new(global).at_once());
    let rows: [(&str, bool, Other, Option<Rule>); 5] = [
        ("in memory", false, for_all, None),
        ("another in a store", false, in_store, None),
        ("a shadow", false, |global| for_all(global).with_mode(Mode::SHADOW), None),
        ("a store that fails", false, for_all, fails()),
        ("waits in a store", true, for_all, fails()),
    ];
    for (case, waits_in_store, other, failing) in rows {
        let ((mut rule, limiter, clock), global) = (waiting(), global(9));
        if waits_in_store {
            let wait = Wait::up_to(ONE_SECOND * 10);
            rule = Rule::waiting(Deferred::new(limiter.clone()), ClientIp::peer(), wait);
        }
        // The rule that waits is the last one asked, wherever it is listed.
        let other = other(global.clone());
        let rules = [rule.clone(), other.clone()].into_iter().chain(failing);
        let service = RateLimitLayer::all(rules).decisions().layer(service_fn(hello));
        assert_eq!(send(&service, request()).await.status(), 200, "{case}");
        assert_eq!(used(&limiter, &global), (1, 1), "{case}");

        let mut call = start(&service).await;
        for _ in 0..20 {
            assert!(poll_once(call.as_mut()).is_none(), "{case}");
        }
        assert_eq!(used(&limiter, &global), (1, 1), "{case}");
        clock.advance(ONE_SECOND);
        let response = call.await.unwrap();
        assert_eq!(response.status(), 200, "{case}");
        assert_eq!(used(&limiter, &global), (1, 2), "{case}");
        let decisions = response.extensions().get::<Decisions>().unwrap();
        let waited = [&rule, &other].map(|it| decisions.of(it).unwrap().waited().is_some());
        assert_eq!(waited, [true, false], "{case}");
    }
}

#[tokio::test]
async fn a_waiters_permits_are_back_if_another_rule_refuses_after_the_wait() {
    let ((rule, limiter, clock), global) = (waiting(), global(2));
    let service = layer_of([rule, for_all(global.clone())]).layer(service_fn(hello));
    assert_eq!(send(&service, request()).await.status(), 200);
    let call = start(&service).await;
    // Meanwhile the last permit is taken by another client.
    assert_eq!(send(&service, request_from("192.0.2.2")).await.status(), 200);
    assert_eq!(used(&limiter, &global), (1, 2));
    clock.advance(ONE_SECOND);
    let refused = call.await.unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(header(refused.headers(), "ratelimit"), Some("\"global\";r=0;t=1800"));
    assert_eq!(header(refused.headers(), "retry-after"), Some("1800"));
    assert_eq!(used(&limiter, &global), (0, 2));
}

/// It was admitted, although the key was blocked.
#[tokio::test]
async fn a_key_that_is_blocked_while_its_request_waits_is_refused() {
    let ((rule, limiter, clock), global) = (waiting(), global(9));
    let block = Block::after(1).within(ONE_SECOND * 60).lasting(ONE_SECOND * 60);
    let rule = rule.block_by_response(block, |_| Strike::Ignore).unwrap();
    let service = layer_of([rule.clone(), for_all(global.clone())]).layer(service_fn(hello));
    let key = Key::from(CLIENT);
    let admission = rule.check(&key).await.unwrap();
    let call = start(&service).await;
    admission.strike();
    clock.advance(ONE_SECOND);
    let refused = call.await.unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(header(refused.headers(), "retry-after"), Some("59"));
    assert!(refused.extensions().get::<Decisions>().unwrap().of(&rule).unwrap().is_blocked());
    assert_eq!(used(&limiter, &global), (0, 0));
}

#[tokio::test]
async fn a_request_that_another_rule_refuses_too_does_not_wait() {
    let ((rule, limiter, clock), global) = (waiting(), global(1));
    let service = layer_of([rule, for_all(global.clone())]).layer(service_fn(hello));
    assert_eq!(send(&service, request()).await.status(), 200);
    let refused = send(&service, request()).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    let fields = "\"global\";r=0;t=3600, \"waiting\";r=0;t=3600";
    assert_eq!(header(refused.headers(), "ratelimit"), Some(fields));
    assert_eq!((used(&limiter, &global), clock.next_wake()), ((1, 1), None));
}

/// With several stores, the first refusal is the only answer. The request waited if that was by the rule that waits, and
/// was then refused by a rule that had no permits before, either: seed 37366304006772 of the simulation with services.
#[tokio::test]
async fn a_request_that_a_rule_in_another_store_refuses_too_does_not_wait() {
    for own_is_in_store in [false, true] {
        let ((mut rule, limiter, clock), global) = (waiting(), global(1));
        let mut rules = vec![for_all(Deferred::new(global.clone()).at_once())];
        if own_is_in_store {
            // The store of the client's own key is called first, for the rule that waits, too.
            let store = Deferred::new(limiter.clone());
            let own = Policy::gcra("own", Quota::per_hour(9));
            rules.push(by_address(Limiter::sibling(&store, &own).unwrap()));
            rule = Rule::waiting(store, ClientIp::peer(), Wait::up_to(ONE_SECOND * 10));
        }
        rules.push(rule.clone());
        let service = RateLimitLayer::all(rules).decisions().layer(service_fn(hello));
        assert_eq!(send(&service, request()).await.status(), 200);
        let mut call: Call = Box::pin(service.clone().oneshot(request()));
        let answers = (0..20).find_map(|_| poll_once(call.as_mut()));
        let refused = answers.expect("the request waits").unwrap();
        let case = format!("own is in store: {own_is_in_store}");
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS, "{case}");
        let refusing = refused.extensions().get::<Decisions>().unwrap();
        let waited = refusing.of(&rule).unwrap().waited();
        assert_eq!(waited, None, "{case}");
        assert_eq!((used(&limiter, &global), clock.next_wake()), ((1, 1), None), "{case}");
    }
}

#[tokio::test]
async fn a_waiter_that_is_dropped_charges_no_rule() {
    let ((rule, limiter, clock), global) = (waiting(), global(9));
    let service = layer_of([rule, for_all(global.clone())]).layer(service_fn(hello));
    assert_eq!(send(&service, request()).await.status(), 200);
    drop(start(&service).await);
    clock.advance(ONE_SECOND * 2);
    assert_eq!((used(&limiter, &global), clock.next_wake()), ((0, 1), None));
}

#[tokio::test]
async fn a_store_that_fails_while_a_request_waits_acts_for_its_rule_alone() {
    for (choice, status, charged) in
        [(OnStoreFailure::Allow, 200, 2), (OnStoreFailure::Deny, 503, 1)]
    {
        let ((_, limiter, _), global) = (waiting(), global(9));
        let wait = Wait::up_to(ONE_SECOND * 10);
        let store = Deferred::new(limiter.clone()).at_once().losing_waiters();
        let rule = Rule::waiting(store, ClientIp::peer(), wait);
        let rules = [rule.on_store_failure(choice), for_all(global.clone())];
        let service = layer_of(rules).layer(service_fn(hello));
        assert_eq!(send(&service, request()).await.status(), 200);
        assert_eq!(used(&limiter, &global), (1, 1));
        assert_eq!(send(&service, request()).await.status(), status);
        // A request that is forwarded has asked the other rule, and was charged by it.
        assert_eq!(used(&limiter, &global), (1, charged), "{choice:?}");
    }
}
