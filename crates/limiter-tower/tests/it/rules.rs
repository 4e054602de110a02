//! Several rules are one decision: a request is charged by all of them or by none.

use crate::*;

/// A client that returned when the first limit said so was refused by the next one.
#[tokio::test]
async fn a_refusal_has_the_longest_wait_of_the_rules_that_refuse_and_names_each() {
    fn other(quota: &str) -> Memory {
        limiter_of(Policy::parse("other", quota).unwrap()).0
    }
    fn absent() -> impl MaybeKey {
        key_fn(|_| None).assume_verified()
    }
    let first = |t: u64| format!("\"address\";r=0;t={t}");
    let both = |t: u64| format!("\"address\";r=0;t={t}, \"other\";r=0;t={t}");
    let rows: [(fn() -> Rule, _, _); 10] = [
        (|| for_all(other("1/d")), Some("86400"), both(86_400)),
        (|| for_all(other("1/2d by sliding-log")), Some("172800"), both(172_800)),
        // The first rule's wait is the longest.
        (|| for_all(other("1/min")), Some("3600"), both(3_600)),
        // A second rule that has room.
        (|| for_all(other("9/d")), Some("3600"), first(3_600)),
        // A key that all requests without one share.
        (|| Rule::new(other("1/d"), absent().or_shared()), Some("86400"), both(86_400)),
        // Those that are not enforced, count no such request, hide their waits, or need a round trip.
        (|| Rule::new(other("1/d"), absent().or_skip()), Some("3600"), first(3_600)),
        (|| for_all(other("1/d")).with_mode(Mode::SHADOW), Some("3600"), first(3_600)),
        (|| for_all(other("1/d")).disclose(Disclosure::None), Some("3600"), first(3_600)),
        (|| for_all(Deferred::new(other("1/d"))), Some("3600"), first(3_600)),
        // No time helps a request that never fits the second rule.
        (
            || for_all(other("1/d")).cost(|head| Cost::of(head.path().len().try_into().unwrap())),
            None,
            "\"address\";r=0, \"other\";r=0".into(),
        ),
    ];
    for (row, (rule, retry_after, fields)) in rows.into_iter().enumerate() {
        // The order of the list changes nothing.
        for order in [[0, 1], [1, 0]] {
            let rules = [by_address(hourly("address", 1)), rule()];
            let layer = layer_of(order.map(|at| rules[at].clone()));
            let layer = layer.answers(Answers::new().refuse_with(problem_json));
            let service = layer.layer(service_fn(hello));
            assert_eq!(send(&service, request()).await.status(), 200);
            let path = if retry_after.is_none() { "/batch" } else { "/" };
            let refusal = send(&service, request_to(path)).await;
            assert_eq!(refusal.status(), 429);
            assert_eq!(header(refusal.headers(), "retry-after"), retry_after, "row {row}");
            assert_eq!(header(refusal.headers(), "ratelimit"), Some(&*fields), "row {row}");
            let names = structured::names(refusal.headers(), "ratelimit");
            assert_eq!(structured::names(refusal.headers(), "ratelimit-policy"), names);
            let body: Value = serde_json::from_str(&text(refusal).await).unwrap();
            assert_eq!(body["violated-policies"], json!(names), "row {row}");
            let seconds = retry_after.map(|seconds| seconds.parse::<u64>().unwrap());
            assert_eq!(body["retry-after"], json!(seconds), "row {row}");
        }
    }
}

/// Returns a rule by address in a store, and a layer of it and of two rules whose stores fail, of which the second one
/// denies. The failure of the first one ends the joint decision, so that the rule by address is charged alone; what that
/// has charged is refunded by a call.
fn refunding(account: &Deferred) -> (Rule, RateLimitLayer) {
    let denying = for_all(failing("denying")).on_store_failure(OnStoreFailure::Deny);
    let rule = by_address(account.clone());
    (rule.clone(), layer_of([rule, for_all(failing("allowing")), denying]))
}

#[tokio::test]
async fn a_refund_to_a_store_is_sent_though_nothing_polls_it() {
    let account = Deferred::new(hourly("account", 9));
    let (rule, layer) = refunding(&account);
    let service = layer.layer(service_fn(hello));
    assert_eq!(statuses(&service, 2).await, [503, 503]);
    let request = request();
    let key = rule.key(&request).unwrap();
    while rule.peek(&key).await.unwrap().used() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(rule.unsent(), 0);

    // A third one that fails is counted.
    assert_eq!(send(&service, crate::request()).await.status(), 503);
    account.set_failing(true);
    while rule.unsent() == 0 {
        tokio::task::yield_now().await;
    }
    account.set_failing(false);
    assert_eq!((rule.peek(&key).await.unwrap().used(), rule.unsent()), (1, 1));
}

#[test]
fn a_refund_that_a_shutdown_interrupts_is_counted() {
    let account = Deferred::new(hourly("account", 9));
    let (rule, layer) = refunding(&account);
    let service = layer.layer(service_fn(hello));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let seen = runtime.block_on(statuses(&service, 1));
    assert_eq!(seen, [503]);
    drop(runtime);
    // One more was awaited: the decision itself gave it back.
    assert_eq!(account.refunds() + rule.unsent(), 2);
}

#[test]
fn a_list_of_rules_that_no_layer_can_have_is_refused() {
    let named = |name: &str| for_all(hourly(name, 1));
    let waiting = |name| {
        let wait = Wait::up_to(Duration::from_secs(1));
        Rule::waiting(hourly(name, 1), FixedKey::new("all"), wait)
    };
    let many = |number| (0..number).map(|rule| named(&rule.to_string())).collect::<Vec<_>>();
    let limits =
        [Policy::gcra("api", Quota::per_hour(1)), Policy::gcra("daily", Quota::per_day(9))];
    let both = for_all(limiter_of(Policy::all_of("both", limits).unwrap()).0);
    let chosen = || Rule::new(hourly("chosen", 1), key_fn(|_| None).or_skip());
    let blocking = |key: Arc<dyn KeyExtractor>| {
        let block = Block::after(9).within(Duration::from_secs(60));
        Rule::new(hourly("login", 1), key).block(block.lasting(Duration::from_secs(60))).unwrap()
    };
    let account = || key_fn(|_| None).or_reject();
    let shared = hourly("one", 1);
    let renamed = shared.with_policy(&Policy::gcra("two", Quota::per_hour(1))).unwrap();
    let same_states = [for_all(shared), by_address(renamed)];
    for (rules, expected) in [
        (vec![], "the layer has no rules"),
        (
            many(17),
            "the rules for a request have 17 demands, and at most 16 are possible (a rule with a block has three)",
        ),
        (vec![waiting("a"), named("b"), waiting("c")], "2 of the layer's rules wait"),
        (
            vec![named("api"), named("api")],
            "two rules have a policy or limit named \"api\"; rename one",
        ),
        // A limit of another policy.
        (
            vec![both, named("daily")],
            "two rules have a policy or limit named \"daily\"; rename one",
        ),
        (
            vec![waiting("a").charge_after(|_| None)],
            "the rule \"a\" waits and charges after the response",
        ),
        (same_states.into(), "the rules [\"one\", \"two\"] count by the states of one limiter"),
        (
            vec![chosen(), by_address(hourly("address", 1)).with_mode(Mode::SHADOW)],
            "a client can choose its key by the rule \"chosen\"",
        ),
        // A key that all share is nobody's own.
        (vec![chosen(), named("all")], "a client can choose its key by the rule \"chosen\""),
        // What a client's responses may get back bounds nothing.
        (
            vec![chosen(), by_address(hourly("address", 1)).charge_after(|_| None)],
            "a client can choose its key by the rule \"chosen\"",
        ),
        (
            vec![chosen(), by_address(hourly("address", 1)).settle(|_| Keep::None)],
            "a client can choose its key by the rule \"chosen\"",
        ),
        (
            vec![blocking(Arc::new(FixedKey::new("all")))],
            "the rule \"login\" blocks a key that is not the client's own",
        ),
        (
            vec![blocking(Arc::new(account())), by_address(hourly("address", 1))],
            "the rule \"login\" blocks a key that is not the client's own",
        ),
    ] {
        let error = RateLimitLayer::try_all(rules.clone()).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
        let all = std::panic::AssertUnwindSafe(|| drop(RateLimitLayer::all(rules)));
        let message = std::panic::catch_unwind(all).unwrap_err();
        assert_eq!(message.downcast_ref::<String>(), Some(&error));
    }
    assert_eq!(RateLimitLayer::all(many(16)).rules().len(), 16);
    let address = || by_address(hourly("address", 1));
    drop(RateLimitLayer::all([chosen(), address(), named("all"), waiting("a")]));
    drop(RateLimitLayer::all([chosen(), address()].map(|rule| rule.settle(|_| Keep::None))));
    drop(RateLimitLayer::all([blocking(Arc::new((account(), ClientIp::peer()))), address()]));
}

#[tokio::test]
async fn no_policy_gets_a_name_that_another_rule_has_now() {
    let (a, b) = (by_address(hourly("a", 9)), for_all(hourly("b", 9)));
    let _layer = layer_of([a.clone(), b.clone()]);
    let gold = |permits| Policy::gcra("gold", Quota::per_hour(permits));
    a.set_policy(&gold(20)).unwrap();
    let error = b.set_policy(&gold(30)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidName);
    a.set_policy(&Policy::gcra("silver", Quota::per_hour(10))).unwrap();
    b.set_policy(&gold(30)).unwrap();
}
