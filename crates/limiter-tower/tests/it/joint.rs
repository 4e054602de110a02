//! All enforced rules are one decision, and shadows are asked after it.

use crate::*;

fn gcra(name: &str, quota: Quota) -> Memory {
    limiter_of(Policy::gcra(name, quota)).0
}

/// How the limiters of three rules answer.
#[derive(Clone, Copy, Debug)]
enum Replies {
    AtOnce,
    Later,
    /// The first two later.
    Mixed,
}

const ALL: [Replies; 3] = [Replies::AtOnce, Replies::Later, Replies::Mixed];

fn limiter(memory: Memory, is_later: bool) -> Arc<dyn Limiter> {
    if is_later { Arc::new(Deferred::new(memory).at_once()) } else { Arc::new(memory) }
}

/// Returns rules by account, address and for the whole service, which cost 1, 2 and 3 permits: of 10 a minute, 100 an
/// hour and 1,000 a day.
fn three(answers: Replies) -> [Rule; 3] {
    let later = match answers {
        Replies::AtOnce => [false; 3],
        Replies::Later => [true; 3],
        Replies::Mixed => [true, true, false],
    };
    let account = HeaderKey::new(HeaderName::from_static("x-account")).assume_verified().or_skip();
    [
        Rule::new(limiter(gcra("account", Quota::per_minute(10)), later[0]), account),
        by_address(limiter(gcra("address", Quota::per_hour(100)), later[1])).cost(|_| Cost::of(2)),
        for_all(limiter(gcra("global", Quota::per_day(1_000)), later[2])).cost(|_| Cost::of(3)),
    ]
}

fn request() -> Request<Body> {
    with(crate::request(), "x-account", "acme")
}

/// Uses up this many permits of the rule's key.
async fn use_up(rule: &Rule, permits: u64) {
    let request = request();
    if let Ok(cost) = Cost::new(permits) {
        drop(rule.check(rule.key(&request).unwrap()).cost(cost).await.unwrap());
    }
}

async fn used<const N: usize>(rules: &[Rule; N]) -> [u64; N] {
    let request = request();
    let mut used = [0; N];
    for (used, rule) in used.iter_mut().zip(rules) {
        *used = rule.peek(&rule.key(&request).unwrap()).await.unwrap().used();
    }
    used
}

#[tokio::test]
async fn each_rule_charges_its_cost_or_none_does() {
    for answers in ALL {
        let rules = three(answers);
        let service = layer_of(rules.clone()).layer(service_fn(hello));
        let admitted = send(&service, request()).await;
        assert_eq!(admitted.status(), 200);
        assert_eq!(used(&rules).await, [1, 2, 3], "{answers:?}");
        let decisions = admitted.extensions().get::<Decisions>().unwrap();
        let costs = rules.each_ref().map(|rule| decisions.of(rule).unwrap().cost().get());
        assert_eq!(costs, [1, 2, 3]);
        let names: Vec<_> = decisions.iter().map(|decided| decided.policy().name()).collect();
        assert_eq!(names, ["account", "address", "global"]);
        let fields = "\"account\";r=9;t=54, \"address\";r=98;t=3528, \"global\";r=997;t=86141";
        assert_eq!(header(admitted.headers(), "ratelimit"), Some(fields));
        assert!(decisions.of(&for_all(gcra("global", Quota::per_day(1_000)))).is_none());

        // One permit of the last rule is left, so its cost of 3 does not fit.
        use_up(&rules[2], 996).await;
        let refused = send(&service, request()).await;
        assert_eq!(refused.status(), 429, "{answers:?}");
        assert_eq!(used(&rules).await, [1, 2, 999], "{answers:?}");
        let decisions = refused.extensions().get::<Decisions>().unwrap();
        let of = rules.each_ref().map(|rule| decisions.of(rule).is_some());
        assert_eq!(of, [false, false, true]);
    }
}

#[tokio::test]
async fn a_refusal_names_all_rules_that_refuse_to_a_grpc_client() {
    use tonic_types::StatusExt;

    let rules = three(Replies::AtOnce);
    let service = layer_of(rules.clone()).answers(Answers::new().grpc()).layer(service_fn(hello));
    use_up(&rules[0], 10).await;
    use_up(&rules[2], 1_000).await;
    let response = send(&service, with(grpc_call(), "x-account", "acme")).await;
    let status = tonic::Status::from_header_map(response.headers()).unwrap();
    assert_eq!(status.code(), tonic::Code::ResourceExhausted);
    assert_eq!(status.metadata().get("grpc-retry-pushback-ms").unwrap(), "259200");
    let details = status.check_error_details().unwrap();
    let wait = details.retry_info().unwrap().retry_delay.unwrap();
    assert_eq!(wait, Duration::from_millis(259_200));
    let violations = &details.quota_failure().unwrap().violations;
    let violations: Vec<_> =
        violations.iter().map(|it| (it.subject.as_str(), it.description.as_str())).collect();
    assert_eq!(violations, [("account", "10/min"), ("global", "1000/d")]);
}

/// Returns a layer of a rule by address that is enforced, and of a shadow; with its events.
fn shadowed(enforced: impl Limiter + 'static, shadow: Rule) -> (RateLimitLayer, Events) {
    // The order of the list changes nothing.
    Events::of(layer_of([shadow.with_mode(Mode::SHADOW), by_address(enforced)]))
}

#[tokio::test]
async fn a_shadow_is_asked_only_about_requests_that_the_others_have_admitted() {
    for (enforced_later, shadow_later) in
        [(false, false), (false, true), (true, false), (true, true)]
    {
        let enforced = limiter(gcra("enforced", Quota::per_hour(2)), enforced_later);
        let shadow = for_all(limiter(gcra("shadow", Quota::per_hour(9)), shadow_later));
        let (layer, _) = shadowed(enforced, shadow.clone());
        let service = layer.layer(service_fn(hello));
        assert_eq!(statuses(&service, 4).await, [200, 200, 429, 429]);
        assert_eq!(used(&[shadow]).await, [2]);
    }
    // Its store gets no calls about the others either.
    for enforced_later in [false, true] {
        let enforced = limiter(gcra("enforced", Quota::per_hour(2)), enforced_later);
        let shadow = Deferred::new(gcra("shadow", Quota::per_hour(9)));
        let service = shadowed(enforced, for_all(shadow.clone())).0.layer(service_fn(hello));
        assert_eq!(statuses(&service, 4).await, [200, 200, 429, 429]);
        assert_eq!((shadow.checks(), shadow.refunds()), (2, 0));
    }
}

#[tokio::test]
async fn a_shadow_answers_no_request_whatever_happens_to_it() {
    let spent = |later| {
        let rule = for_all(limiter(gcra("shadow", Quota::per_hour(1)), later));
        (rule, Outcome::ShadowDenied)
    };
    let failing = || for_all(failing("shadow")).on_store_failure(OnStoreFailure::Deny);
    let keyless = key_fn(|_| None::<Key<'_>>).assume_verified().or_reject();
    let twice = HeaderKey::new(HeaderName::from_static("x-twice")).assume_verified().or_reject();
    let keyed = |key| (Rule::new(gcra("shadow", Quota::per_hour(9)), key), Outcome::Bypassed);
    let twice = Rule::new(gcra("shadow", Quota::per_hour(9)), twice);
    for (shadow, outcome) in [
        spent(false),
        spent(true),
        (failing(), Outcome::ErrorAllowed),
        keyed(keyless),
        (twice, Outcome::Bypassed),
        (for_all(gcra("shadow", Quota::per_hour(9))).cost(|_| Cost::of(99)), Outcome::ShadowDenied),
    ] {
        let (layer, events) = shadowed(gcra("enforced", Quota::per_hour(2)), shadow);
        let service = layer.layer(service_fn(hello));
        for expected in [200, 200, 429] {
            let request = with(with(request(), "x-twice", "a"), "x-twice", "b");
            let response = send(&service, request).await;
            assert_eq!(response.status(), expected, "{outcome:?}");
            let fields = header(response.headers(), "ratelimit").unwrap();
            assert!(!fields.contains("shadow"), "{fields}");
        }
        let events = events.take();
        assert!(events.contains(&format!("shadow {}", outcome.name())), "{events:?}");
    }
}

#[tokio::test]
async fn rules_that_count_a_request_decide_on_it_beside_those_that_skip_it() {
    for later in [false, true] {
        let user = HeaderKey::new(HeaderName::from_static("x-user")).assume_verified().or_skip();
        let users = Rule::new(limiter(gcra("user", Quota::per_hour(9)), later), user);
        let hour = |name, permits| for_all(limiter(gcra(name, Quota::per_hour(permits)), later));
        let (layer, events) = Events::of(layer_of([hour("all", 2), users, hour("site", 9)]));
        let service = layer.layer(service_fn(hello));
        let expected = [
            (None, 200, r#""all";r=1;t=1800, "site";r=8;t=3200"#),
            (Some("a"), 200, r#""user";r=8;t=3200, "all";r=0;t=1800, "site";r=7;t=2800"#),
            (None, 429, r#""all";r=0;t=1800"#),
        ];
        for (user, status, fields) in expected {
            let request = match user {
                Some(user) => with(request(), "x-user", user),
                None => request(),
            };
            let response = send(&service, request).await;
            assert_eq!(response.status(), status, "later: {later}, user: {user:?}");
            assert_eq!(header(response.headers(), "ratelimit"), Some(fields), "later: {later}");
        }
        assert_eq!(events.of_rule("user"), ["bypassed", "allowed", "bypassed"]);
        assert_eq!(events.of_rule("all"), ["allowed", "allowed", "denied"]);
        assert_eq!(events.of_rule("site"), ["allowed", "allowed"]);
    }
}
