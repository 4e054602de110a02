//! The parameters of `RateLimit` that are proposed for the next draft: `a`, `w` and `c`.

use crate::*;

/// Returns `RateLimit` of the response to a request of this cost.
async fn sent(layer: &RateLimitLayer, cost: u64) -> String {
    let request = with(request(), "cost", &cost.to_string());
    let response = send(&layer.layer(service_fn(hello)), request).await;
    header(response.headers(), "ratelimit").unwrap().to_owned()
}

/// Returns a rule whose cost is in a field of the request.
fn priced(quota: Quota) -> Rule {
    by_address(limiter(quota).0).cost(|head| {
        let cost = head.headers.get("cost").and_then(|cost| cost.to_str().ok()?.parse().ok());
        Cost::of(cost.unwrap())
    })
}

#[tokio::test]
async fn members_have_what_is_available_the_window_and_the_cost() {
    let layer = layer_of([priced(Quota::per_minute(10))])
        .answers(Answers::new().headers(Headers::RateLimitNext));
    for (cost, expected) in [
        (2, "\"default\";a=8;w=48;c=2"),
        // 3 are left, and 5 fit in 12 s.
        (5, "\"default\";a=3;w=12;c=5"),
        // A refusal has the cost that did not fit.
        (4, "\"default\";a=3;w=6;c=4"),
        // Not ever, so without a window.
        (11, "\"default\";a=3;c=11"),
    ] {
        assert_eq!(sent(&layer, cost).await, expected);
    }
}

#[tokio::test]
async fn the_policy_is_that_of_the_present_draft() {
    let mut policies = Vec::new();
    for headers in [Headers::RateLimit, Headers::RateLimitNext] {
        let layer = layer_of([priced(Quota::per_minute(10).with_burst(5))])
            .answers(Answers::new().headers(headers));
        let request = with(request(), "cost", "1");
        let response = send(&layer.layer(service_fn(hello)), request).await;
        policies.push(response.headers()["ratelimit-policy"].clone());
    }
    assert_eq!(policies, ["\"default\";q=10;w=60;limiter-burst=5"; 2]);
}

#[tokio::test]
async fn a_settled_charge_is_the_cost() {
    let rule = || for_all(limiter_of(Policy::gcra("login", Quota::per_minute(10))).0);
    let settled = rule()
        .cost(|_| Cost::of(4))
        .settle(|response| if response.status.is_success() { Keep::Only(1) } else { Keep::All });
    let later =
        rule().charge_after(|response| (!response.status.is_success()).then_some(Cost::of(4)));
    for (rule, right, wrong) in
        [(settled, "a=9;w=54;c=1", "a=5;w=30;c=4"), (later, "a=10;w=60;c=0", "a=6;w=36;c=4")]
    {
        let service = layer_of([rule])
            .answers(Answers::new().headers(Headers::RateLimitNext))
            .layer(service_fn(named));
        for (is_wrong, expected) in [(false, right), (true, wrong)] {
            let request = request_for(if is_wrong { 401 } else { 200 });
            let response = send(&service, request).await;
            let expected = format!("\"login\";{expected}");
            assert_eq!(header(response.headers(), "ratelimit"), Some(&*expected));
        }
    }
}

#[tokio::test]
async fn a_cost_stays_within_the_range_of_a_field() {
    let usage = Usage::new(10, 0, Duration::from_secs(90));
    let rule = by_address(returning(Ok(Decision::admitted(usage)))).cost(|_| Cost::of(u64::MAX));
    let layer = layer_of([rule]).answers(Answers::new().headers(Headers::RateLimitNext));
    assert_eq!(sent(&layer, 1).await, "\"default\";a=0;w=90;c=999999999999999");
}
