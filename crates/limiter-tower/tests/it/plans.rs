//! The policy of each request.

use axum::extract::MatchedPath;

use crate::*;

/// An authentication layer would insert it.
#[derive(Clone)]
struct Tier(&'static str);

fn of_tier(tier: &'static str) -> Request<Body> {
    let mut request = request();
    request.extensions_mut().insert(Tier(tier));
    request
}

fn gcra(name: &str, permits: u64) -> Policy {
    Policy::gcra(name, Quota::per_hour(permits))
}

/// Returns a limiter of one permit, and plans of two and three permits over its states.
fn plans() -> (Memory, Plans) {
    let limiter = hourly("default", 1);
    let plans = Plans::new(limiter.clone(), [gcra("silver", 2), gcra("gold", 3)]).unwrap();
    (limiter, plans)
}

/// Returns a service of a rule whose plan is that of the tier, or else this one, and the rule.
fn by_tier(otherwise: &str) -> (Rule, Plans, impl Served) {
    let (limiter, plans) = plans();
    let select = plans.by_extension(|tier: &Tier| tier.0, otherwise).unwrap();
    let rule = by_address(limiter).plan(select);
    let service = layer_of([rule.clone()]).layer(service_fn(hello));
    (rule, plans, service)
}

#[tokio::test]
async fn a_tier_has_its_own_quota_over_the_same_states() {
    let (rule, _, service) = by_tier("default");
    // Two thirds of the burst are used. A permit of silver is half of it, and one of gold a third.
    let tiers = ["gold", "gold", "silver", "gold", "gold"].map(of_tier);
    assert_eq!(sent(&service, tiers).await, [200, 200, 429, 200, 429]);
    let refusal = send(&service, of_tier("gold")).await;
    assert_eq!(header(refusal.headers(), "ratelimit-policy"), Some("\"gold\";q=3;w=3600"));
    let decisions = refusal.extensions().get::<Decisions>().unwrap();
    assert_eq!(decisions.of(&rule).unwrap().policy().name(), "gold");
}

#[tokio::test]
async fn a_tier_that_no_plan_has_is_a_choice() {
    for (otherwise, expected) in [("default", [200, 429, 429]), ("silver", [200, 200, 429])] {
        for unknown in [of_tier("platinum"), request()] {
            let (_, _, service) = by_tier(otherwise);
            assert_eq!(sent(&service, vec![unknown; 3]).await, expected, "{otherwise}");
        }
    }
}

#[tokio::test]
async fn a_request_without_a_tier_follows_the_rules_live_policy() {
    let (rule, plans, service) = by_tier("default");
    // The limiter's own policy is one of the plans.
    assert_eq!(statuses(&service, 2).await, [200, 429]);
    rule.reset(&rule.key(&request()).unwrap()).await.unwrap();
    rule.set_policy(&gcra("default", 2)).unwrap();
    assert_eq!(statuses(&service, 3).await, [200, 200, 429]);
    // A reload that names it replaces it.
    plans.replace([gcra("default", 7), gcra("gold", 3)]).unwrap();
    assert_eq!(plans.get("default").unwrap().policy(), &gcra("default", 7));
}

#[test]
fn a_plan_that_a_selector_names_is_never_missing() {
    let (_, plans) = plans();
    let error = plans.by_extension(|tier: &Tier| tier.0, "bronze").err().unwrap();
    let expected = "unknown plan \"bronze\"; expected one of \"default\", \"gold\", \"silver\"";
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::InvalidName, expected));

    let _select = plans.by_extension(|tier: &Tier| tier.0, "silver").unwrap();
    let error = plans.replace([gcra("gold", 100)]).unwrap_err();
    let expected = "unknown plan \"silver\"; expected one of \"default\", \"gold\"";
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::InvalidName, expected));
    assert_eq!(plans.get("gold").unwrap().policy(), &gcra("gold", 3));
    plans.replace([gcra("silver", 100)]).unwrap();
}

#[tokio::test]
async fn a_reloaded_table_applies_to_the_next_request() {
    let (_, plans, service) = by_tier("default");
    assert_eq!(sent(&service, ["gold"; 4].map(of_tier)).await, [200, 200, 200, 429]);
    plans.replace([gcra("gold", 100)]).unwrap();
    // The key is still used up, and recovers at the new rate.
    let refusal = send(&service, of_tier("gold")).await;
    assert_eq!(header(refusal.headers(), "retry-after"), Some("36"));
    assert_eq!(header(refusal.headers(), "ratelimit-policy"), Some("\"gold\";q=100;w=3600"));
    assert!(plans.get("silver").is_none());
}

#[test]
fn names_are_checked_when_the_table_is_built() {
    let (limiter, plans) = plans();
    let error = Plans::new(limiter.clone(), [gcra("gold", 1), gcra("gold", 2)]).unwrap_err();
    assert_eq!(error.to_string(), "two plans are named \"gold\"; give each a name of its own");
    let other = Policy::fixed_window("window", Quota::per_hour(1));
    assert_eq!(Plans::new(limiter, [other]).unwrap_err().kind(), ErrorKind::InvalidSetting);
    // A failed replacement changes nothing.
    plans.replace([gcra("a", 1), gcra("a", 2)]).unwrap_err();
    assert!(plans.get("gold").is_some());
}

/// By its method, its route, its header field, and through a pointer.
#[tokio::test]
async fn a_closure_returns_the_plan_of_a_request() {
    let (limiter, plans) = plans();
    let gold = plans.get("gold").unwrap();
    let by_method = for_all(limiter).plan(plan_if(gold, |head| *head.method == Method::GET));
    let requests = [Method::GET, Method::POST, Method::GET, Method::GET]
        .map(|method| Request::builder().method(method).body(Body::default()).unwrap());
    let service = layer_of([by_method]).layer(service_fn(hello));
    assert_eq!(sent(&service, requests).await, [200, 429, 200, 200]);

    let (limiter, plans) = self::plans();
    let is_file = |head: Head<'_>| {
        head.extensions.get::<MatchedPath>().is_some_and(|it| it.as_str() == "/files/{id}")
    };
    let by_route = for_all(limiter).plan(plan_if(plans.get("gold").unwrap(), is_file));
    let app = Router::new()
        .route("/files/{id}", get(|| async { "file" }))
        .route("/users/{id}", get(|| async { "user" }))
        .layer(layer_of([by_route]));
    let paths = ["/files/1", "/users/1", "/files/2", "/files/3", "/files/4"];
    assert_eq!(routed(&app, paths).await, [200, 429, 200, 200, 429]);

    // As many quotas as customers: a real program would fill a cache from its database.
    let limiter = hourly("default", 1);
    let acme = Plan::new(limiter.clone()).with_policy(&gcra("acme", 3)).unwrap();
    let is_acme = |head: Head<'_>| head.headers.contains_key("acme");
    let service = layer_of([by_address(limiter).plan(plan_if(acme, is_acme))]);
    let requests = vec![with(request(), "acme", "yes"); 4];
    assert_eq!(sent(&service.layer(service_fn(hello)), requests).await, [200, 200, 200, 429]);

    let limiter = hourly("default", 2);
    let shared: Arc<dyn Limiter> = Arc::new(limiter.clone());
    let gold = Plans::new(shared, [gcra("gold", 5)]).unwrap().get("gold").unwrap();
    let service = layer_of([for_all(limiter).plan(plan_if(gold, |_| true))]);
    let service = service.layer(service_fn(hello));
    assert_eq!(statuses(&service, 6).await, [200, 200, 200, 200, 200, 429]);
}

/// Returns a closure that chooses a plan for some requests.
fn plan_if(
    plan: Plan,
    applies: impl Fn(Head<'_>) -> bool + Send + Sync + 'static,
) -> impl Fn(Head<'_>) -> Option<Plan> + Send + Sync + 'static {
    move |head| applies(head).then(|| plan.clone())
}

/// As an admin page shows the quota of a tier.
#[tokio::test]
async fn a_rule_under_a_plan_shows_the_plans_policy() {
    let (limiter, plans) = plans();
    let rule = for_all(limiter.clone());
    let gold = rule.under(&plans.get("gold").unwrap());
    let all = "all".into();
    assert_eq!((gold.name(), gold.policy()), ("default", gcra("gold", 3)));
    drop(gold.check(&all).await.unwrap());
    let usage = gold.peek(&all).await.unwrap();
    assert_eq!((usage.used(), usage.remaining()), (1, 2));
    assert_eq!(rule.peek(&all).await.unwrap().remaining(), 0);
    assert_eq!(rule.policy().name(), "default");
    // The rule's own policy changes; that of the plan stays.
    gold.set_policy(&gcra("default", 9)).unwrap();
    assert_eq!((rule.policy(), gold.policy()), (gcra("default", 9), gcra("gold", 3)));
}

#[tokio::test]
async fn a_rule_under_a_plan_of_a_store_asks_it_once() {
    let store = Deferred::new(hourly("api", 9));
    let rule = for_all(hourly("api", 9)).under(&Plan::new(store.clone()));
    let service = layer_of([rule]).layer(service_fn(hello));
    assert_eq!(statuses(&service, 1).await, [200]);
    assert_eq!(store.checks(), 1);
}
