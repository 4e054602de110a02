//! The fields under random policies and traffic.

use limiter_core::{Algorithm, Limit};
use limiter_test::policies::any_policy;
use proptest::{collection::vec, prelude::*};

use crate::{structured::members, *};

const MAX_INTEGER: i64 = 999_999_999_999_999;

/// Returns policies whose names, and those of their limits, are any that a policy can have.
fn policies() -> impl Strategy<Value = Policy> {
    (any_policy(), "[ -~]{1,20}")
        .prop_filter_map("a name that is refused", |(policy, name)| renamed(&policy, &name).ok())
}

fn renamed(policy: &Policy, name: &str) -> Result<Policy, Error> {
    let limits = policy.limits().iter().enumerate();
    let limits = limits.map(|(index, limit)| {
        let name = format!("{name}{index}");
        Policy::new(&name, limit.algorithm(), *limit.quota())
    });
    let mut limits = limits.collect::<Result<Vec<_>, _>>()?;
    if limits.len() == 1 {
        return Ok(limits.remove(0));
    }
    Policy::all_of(name, limits)
}

/// A request, after some time.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// Of the limit, in hundredths.
    cost: u64,
    /// Of the window, in thousandths.
    pause: u32,
    /// Whether the client waits as long as the response says, and sends the same again.
    obeys: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pause = prop_oneof![3 => Just(0), 3 => 0..100_u32, 1 => 0..1_500_u32];
    let cost = prop_oneof![2 => Just(0), 2 => 0..=105_u64];
    let step = (cost, pause, any::<bool>());
    vec(step.prop_map(|(cost, pause, obeys)| Step { cost, pause, obeys }), 1..30)
}

fn is_paced(policy: &Policy) -> bool {
    let paced = |algorithm| matches!(algorithm, Algorithm::SubWindows(slots) if slots.is_paced());
    policy.limits().iter().any(|limit| paced(limit.algorithm()))
}

/// Returns the `r` and `t` of a response, which keep all promises that hold for any response.
fn checked(policy: &Policy, status: StatusCode, headers: &HeaderMap) -> (i64, Option<i64>) {
    let policies = members(headers, "ratelimit-policy");
    let names: Vec<_> = policy.limits().iter().map(Limit::name).collect();
    assert!(policies.iter().map(|member| &member.name).eq(&names), "{policies:?} of {names:?}");
    for policy in &policies {
        let names: Vec<_> = policy.parameters.iter().map(|(name, _)| name.as_str()).collect();
        assert!(matches!(names[..], ["q", "w"] | ["q", "w", "limiter-burst"]), "{policy:?}");
        for (name, value) in &policy.parameters {
            assert!((1..=MAX_INTEGER).contains(value), "{name} of {policy:?}");
        }
    }
    let limits = members(headers, "ratelimit");
    let [limit] = limits.as_slice() else { panic!("one member: {limits:?}") };
    let of = policies.iter().find(|policy| policy.name == limit.name).unwrap();
    let most = of.get("limiter-burst").or(of.get("q")).unwrap();
    let (r, t) = (limit.get("r").unwrap(), limit.get("t"));
    assert!((0..=most).contains(&r), "{limit:?} of {of:?}");
    assert!(t.is_none_or(|t| (1..=MAX_INTEGER).contains(&t)), "{limit:?}");

    let retry_after = header(headers, "retry-after").map(|value| value.parse::<i64>().unwrap());
    let is_refused = status == StatusCode::TOO_MANY_REQUESTS;
    assert_eq!(t, if is_refused { retry_after } else { t }, "{limit:?}");
    assert!(is_refused || (retry_after.is_none() && t.is_some()), "{limit:?}");
    (r, t)
}

async fn holds(policy: &Policy, steps: &[Step]) {
    let (limiter, clock) = limiter_of(policy.clone());
    let service =
        RateLimitLayer::all([for_all(limiter).cost(|head| *head.extensions.get().unwrap())])
            .layer(service_fn(hello));
    let request = |cost| {
        let mut request = Request::new(Body::default());
        request.extensions_mut().insert(Cost::of(cost));
        request
    };
    let quota = policy.limits().first().unwrap().quota();
    for step in steps {
        clock.advance(quota.window() * step.pause / 1_000);
        let cost = (quota.burst() * step.cost / 100).max(1);
        let response = send(&service, request(cost)).await;
        let (r, t) = checked(policy, response.status(), response.headers());
        let is_admitted = response.status() == StatusCode::OK;
        // After a wait in whole seconds, another slot of a paced window with a lower ceiling may be
        // open. An admission reports one of several limits, and the others may take longer.
        let is_short = policy.limits().len() == 1 && r < i64::try_from(cost).unwrap();
        let is_promise = !is_paced(policy) && (!is_admitted || is_short);
        if let (true, true, Some(t)) = (step.obeys, is_promise, t) {
            clock.advance(Duration::from_secs(t.try_into().unwrap()));
            let again = send(&service, request(cost)).await;
            assert_eq!(again.status(), StatusCode::OK, "{step:?} after {t} s, {policy:?}");
            checked(policy, again.status(), again.headers());
        }
    }
}

proptest! {
    #[test]
    fn all_fields_parse_and_a_client_that_waits_is_admitted(
        policy in policies(),
        steps in steps(),
    ) {
        // Of too many paced slots.
        prop_assume!(RateLimitLayer::try_all([for_all(limiter_of(policy.clone()).0)]).is_ok());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(holds(&policy, &steps));
    }
}
