//! Roll-out and operation: shadows, samples, exemptions, the handle and the observer.

use limiter_tower::{Reload, key::Networks};

use crate::*;

#[tokio::test]
async fn a_shadow_marks_its_refusals_and_shows_clients_nothing() {
    let rule = by_address(limiter(Quota::per_hour(1)).0).with_mode(Mode::SHADOW);
    let service = layer_of([rule.clone()]).layer(service_fn(hello));
    for is_admitted in [true, false, false] {
        let response = send(&service, request()).await;
        assert_eq!(response.status(), 200);
        assert_eq!(header(response.headers(), "ratelimit"), None);
        assert_eq!(header(response.headers(), "ratelimit-policy"), None);
        let decisions = response.extensions().get::<Decisions>().unwrap();
        let decided = decisions.of(&rule).unwrap();
        assert!(decided.is_shadow());
        assert_eq!(decided.decision().is_admitted(), is_admitted);
    }
}

#[tokio::test]
async fn a_sample_is_enforced_for_its_share_of_keys() {
    let (limiter, _) = limiter(Quota::per_hour(1));
    let layer = layer_of([by_address(limiter).with_mode(Mode::sample(30).unwrap())]);
    let service = layer.layer(service_fn(hello));
    let mut refused = 0;
    for last in 0..=255 {
        let address = format!("198.51.100.{last}");
        send(&service, request_from(&address)).await;
        let again = send(&service, request_from(&address)).await;
        refused += u32::from(again.status() == 429);
    }
    assert!((50..=105).contains(&refused), "{refused} of 256 addresses");
}

#[tokio::test]
async fn exempt_networks_and_paths_are_not_counted() {
    let (limiter, _) = limiter(Quota::per_hour(1));
    let office = Networks::parse(["203.0.113.0/24"]).unwrap();
    let client = ClientIp::peer();
    let service = per_address(limiter)
        .skip(move |head| {
            head.path() == "/health"
                || client.address(head).is_ok_and(|address| office.contains(address))
        })
        .layer(service_fn(hello));
    for _ in 0..5 {
        for request in [request_to("/health"), request_from("203.0.113.7")] {
            let response = send(&service, request).await;
            assert_eq!(response.status(), 200);
            assert_eq!(header(response.headers(), "ratelimit"), None);
        }
    }
    assert_eq!(statuses(&service, 2).await, [200, 429]);
}

#[tokio::test]
async fn a_clone_of_a_rule_changes_the_policy_and_keeps_what_is_used() {
    let (limiter, clock) = limiter(Quota::per_hour(2));
    let rule = by_address(limiter);
    let service = layer_of([rule.clone()]).layer(service_fn(hello));
    assert_eq!(statuses(&service, 3).await, [200, 200, 429]);
    let raised = Policy::gcra("raised", Quota::per_hour(4));
    rule.set_policy(&raised).unwrap();
    assert_eq!((rule.name(), rule.policy()), ("default", raised.clone()));
    let response = send(&service, request()).await;
    assert_eq!(header(response.headers(), "ratelimit-policy"), Some("\"raised\";q=4;w=3600"));
    // A key that is used up recovers at the new rate, of one permit in a quarter of an hour.
    assert_eq!(response.status(), 429);
    clock.advance(Duration::from_secs(900));
    assert_eq!(statuses(&service, 2).await, [200, 429]);

    let window = Policy::fixed_window("window", Quota::per_hour(1));
    assert_eq!(rule.set_policy(&window).unwrap_err().kind(), ErrorKind::InvalidSetting);
    assert_eq!(rule.policy(), raised);
}

#[tokio::test]
async fn a_clone_of_a_rule_peeks_and_resets_and_one_of_the_layer_switches_off() {
    let rule = by_address(limiter(Quota::per_hour(2)).0);
    let layer = layer_of([rule.clone()]);
    let service = layer.layer(service_fn(hello));
    let request = request();
    let key = rule.key(&request).unwrap();
    assert_eq!(key, CLIENT.into());
    assert_eq!(statuses(&service, 3).await, [200, 200, 429]);
    assert_eq!(rule.peek(&key).await.unwrap().remaining(), 0);
    rule.reset(&key).await.unwrap();
    assert_eq!(statuses(&service, 3).await, [200, 200, 429]);

    layer.switch_off();
    assert!(!layer.clone().is_on());
    assert_eq!(statuses(&service, 3).await, [200, 200, 200]);
    layer.clone().switch_on();
    assert!(layer.is_on());
    assert_eq!(statuses(&service, 1).await, [429]);
    rule.set_mode(Mode::SHADOW);
    assert_eq!(statuses(&service, 1).await, [200]);
    assert_eq!(rule.mode(), Mode::SHADOW);
}

#[tokio::test]
async fn a_configured_clone_leaves_the_original_as_it_was() {
    let rule = by_address(limiter(Quota::per_hour(2)).0);
    let twice = rule.clone().cost(|_| Cost::of(2));
    let layer = layer_of([rule]);
    let skipping = layer.clone().skip(|_| true);
    let service = layer.layer(service_fn(hello));
    let (twice, skipping) = (layer_of([twice]), skipping.layer(service_fn(hello)));
    let twice = twice.layer(service_fn(hello));
    assert_eq!(statuses(&skipping, 3).await, [200; 3]);
    assert_eq!(statuses(&service, 1).await, [200]);
    // One permit is left: the states are the same, and only the clone's cost is two.
    assert_eq!(statuses(&twice, 1).await, [429]);
    assert_eq!(statuses(&service, 2).await, [200, 429]);
    layer.switch_off();
    assert_eq!(statuses(&service, 1).await, [200]);
}

#[tokio::test]
async fn the_observer_sees_every_outcome_with_policy_and_store() {
    let memory = hourly("api", 1);
    let deferred = Deferred::new(hourly("stored", 9));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let x_api_key = HeaderName::from_static("x-api-key");
    let api = by_address(memory);
    let layer = layer_of([
        api.clone(),
        Rule::new(deferred.clone(), HeaderKey::new(x_api_key).assume_verified().or_skip()),
    ])
    .skip(|head| head.path() == "/health")
    .observe(move |event| {
        let policy = event.policy.unwrap().name().to_owned();
        sink.lock().unwrap().push((policy, event.store, event.outcome));
    });
    let service = layer.layer(service_fn(hello));
    let request = |path: &str, key: Option<&str>| {
        key.map_or(request_to(path), |key| with(request_to(path), "x-api-key", key))
    };
    let set_mode = |mode| api.set_mode(mode);
    send(&service, request("/", Some("k"))).await;
    send(&service, request("/", Some("k"))).await;
    send(&service, request("/health", None)).await;
    set_mode(Mode::SHADOW);
    send(&service, request("/", None)).await;
    deferred.set_failing(true);
    send(&service, request("/", Some("k"))).await;
    set_mode(Mode::ENFORCE);
    send(&service, Request::new(Body::default())).await;
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    let expected = [
        ("api", "memory", Outcome::Allowed),
        ("stored", "other", Outcome::Allowed),
        ("api", "memory", Outcome::Denied),
        ("api", "memory", Outcome::Bypassed),
        ("stored", "other", Outcome::Bypassed),
        // Which rules count a request is known before any is asked.
        ("stored", "other", Outcome::Bypassed),
        ("api", "memory", Outcome::ShadowDenied),
        ("api", "memory", Outcome::ShadowDenied),
        ("stored", "other", Outcome::ErrorAllowed),
        ("api", "memory", Outcome::Rejected),
    ];
    let expected = expected.map(|(policy, store, outcome)| (policy.to_owned(), store, outcome));
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn the_policies_of_several_rules_are_set_together_or_not_at_all() {
    let gcra = |name, permits| Policy::gcra(name, Quota::per_hour(permits));
    let rules = ["a", "b", "c"].map(|name| by_address(limiter_of(gcra(name, 1)).0));
    let policies = || rules.each_ref().map(Rule::policy);
    let before = policies();
    let [a, b, c] = ["a", "b", "c"].map(|name| gcra(name, 5));
    let window = Policy::fixed_window("c", Quota::per_hour(5));
    for (bad, kind, message) in [
        // The last one has another algorithm.
        (vec![a.clone(), b.clone(), window], ErrorKind::InvalidSetting, None),
        (vec![a.clone(), b.clone()], ErrorKind::InvalidName, Some("no policy for the rule \"c\"")),
        (
            vec![a.clone(), gcra("x", 5), b.clone(), gcra("y", 5)],
            ErrorKind::InvalidName,
            Some(
                "no policy for the rule \"c\", no rule for the policy \"x\", \
                 no rule for the policy \"y\"",
            ),
        ),
        // One of them would be lost.
        (
            vec![a.clone(), b.clone(), c.clone(), gcra("a", 6)],
            ErrorKind::InvalidName,
            Some("two policies named \"a\""),
        ),
        (vec![], ErrorKind::InvalidName, None),
    ] {
        let error = Reload::new().rules(&rules, bad).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(message.is_none_or(|message| error.to_string() == message), "{error}");
        assert_eq!(policies(), before, "{error}");
    }
    let service = layer_of(rules.clone()).layer(service_fn(hello));
    assert_eq!(statuses(&service, 2).await, [200, 429]);

    // In any order.
    Reload::new().rules(&rules, [c.clone(), a.clone(), b.clone()]).unwrap().apply();
    assert_eq!(policies(), [a, b, c]);
    // The key is still used up. Another one has all of the new limits.
    assert_eq!(statuses(&service, 1).await, [429]);
    for status in [200, 200, 200, 200, 200, 429] {
        assert_eq!(send(&service, request_from("192.0.2.2")).await.status(), status);
    }
}

#[test]
fn rules_and_plans_are_reloaded_together_or_not_at_all() {
    let gcra = |name, permits| Policy::gcra(name, Quota::per_hour(permits));
    let (limiter, _) = limiter_of(gcra("api", 1));
    let plans = Plans::new(limiter.clone(), [gcra("gold", 2)]).unwrap();
    let selector = plans.by_extension(|name: &String| name, "gold").unwrap();
    let rules = [by_address(limiter).plan(selector)];
    let reload = || Reload::new().rules(&rules, [gcra("api", 10)]).unwrap();
    let quotas = || [rules[0].policy(), plans.get("gold").unwrap().policy().clone()];

    // The plan that a selector names is missing, so the rule's policy stays, too.
    let error = reload().plans(&plans, [gcra("silver", 20)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidName);
    assert_eq!(quotas(), [gcra("api", 1), gcra("gold", 2)]);
    reload().plans(&plans, [gcra("gold", 20)]).unwrap().apply();
    assert_eq!(quotas(), [gcra("api", 10), gcra("gold", 20)]);
}

#[test]
fn limits_under_which_keys_begin_fresh_are_logged() {
    let log = Log::start();
    let gcra = |name, quota| Policy::gcra(name, quota);
    let (limiter, _) = limiter_of(gcra("api", Quota::per_hour(10)));
    let plans = Plans::new(limiter.clone(), [gcra("gold", Quota::per_hour(20))]).unwrap();
    let rules = [by_address(limiter)];
    // The same span.
    rules[0].set_policy(&gcra("api", Quota::per_hour(30))).unwrap();
    plans.replace([gcra("gold", Quota::per_hour(5))]).unwrap();
    assert_eq!(log.lines(), [""; 0]);
    rules[0].set_policy(&gcra("raised", Quota::per_hour(30).with_burst(60))).unwrap();
    let reload = Reload::new().rules(&rules, [gcra("api", Quota::per_minute(1))]).unwrap();
    let reload = reload.plans(&plans, [gcra("gold", Quota::per_minute(2))]).unwrap();
    assert_eq!(log.lines().len(), 1);
    reload.apply();
    let line = |rule: &str, limit: &str| {
        format!(
            "INFO limiter_tower: keys begin fresh under limits of another span policy=\"{rule}\" \
             limits=[\"{limit}\"]"
        )
    };
    assert_eq!(log.lines(), [line("api", "raised"), line("api", "api"), line("gold", "gold")]);
}

/// A program can make a selector between the check and the change.
#[test]
fn a_selector_that_is_made_during_a_reload_keeps_its_plan() {
    let gcra = |name, permits| Policy::gcra(name, Quota::per_hour(permits));
    let (limiter, _) = limiter_of(gcra("api", 1));
    let plans = Plans::new(limiter, [gcra("gold", 2), gcra("silver", 3)]).unwrap();
    let reload = Reload::new().plans(&plans, [gcra("gold", 20)]).unwrap();
    let _selector = plans.by_extension(|name: &String| name, "silver").unwrap();
    reload.apply();
    assert_eq!(*plans.get("silver").unwrap().policy(), gcra("silver", 3));
    assert_eq!(*plans.get("gold").unwrap().policy(), gcra("gold", 20));
}

/// Header fields and metrics identify a rule by its names.
#[tokio::test]
async fn a_rule_can_not_be_given_the_name_of_another_one() {
    let gcra = |name| Policy::gcra(name, Quota::per_hour(1));
    let rules = ["user", "all"].map(|name| for_all(limiter_of(gcra(name)).0));
    let _layer = layer_of(rules.clone());
    let [user, _] = rules;
    let error = user.set_policy(&gcra("all")).unwrap_err();
    let text = r#"invalid policy "all": another rule of the layer has a policy or limit of this name; rename one"#;
    assert_eq!(error.to_string(), text);
    assert_eq!(user.policy().name(), "user");
    user.set_policy(&gcra("renamed")).unwrap();
    user.set_policy(&gcra("user")).unwrap();
}

/// A request that one rule rejects was not let through by those before it.
#[tokio::test]
async fn a_rejected_request_is_reported_by_the_rule_that_needs_the_key_alone() {
    let absent = || key_fn(|_| None).assume_verified();
    let (layer, events) = Events::of(layer_of([
        Rule::new(hourly("skips", 1), absent().or_skip()),
        Rule::new(hourly("rejects", 1), absent().or_reject()),
    ]));
    let response = send(&layer.layer(service_fn(hello)), request()).await;
    assert_eq!((response.status().as_u16(), events.take()), (400, vec!["rejects rejected".into()]));
}

#[tokio::test]
async fn a_rule_with_another_name_enforces_the_policy_that_was_set() {
    let rule = by_address(hourly("api", 5));
    rule.set_policy(&Policy::gcra("api", Quota::per_hour(2))).unwrap();
    let service = layer_of([rule.shown_as("new").unwrap()]).layer(service_fn(hello));
    assert_eq!(statuses(&service, 4).await, [200, 200, 429, 429]);
}
