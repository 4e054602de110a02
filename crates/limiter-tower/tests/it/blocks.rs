//! Keys that are blocked after refusals, or after responses that a closure chooses.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::*;

const MINUTE: Duration = Duration::from_secs(60);

fn block() -> Block {
    Block::after(3).within(10 * MINUTE).lasting(5 * MINUTE).doubling(20 * MINUTE)
}

/// Returns a rule by address of so many permits a minute, with the block, and its clock.
fn blocking(permits: u64) -> (Rule, ManualClock) {
    let (limiter, clock) = limiter("api", permits);
    (by_address(limiter).block(block()).unwrap(), clock)
}

fn limiter(name: &'static str, permits: u64) -> (Memory, ManualClock) {
    limiter_of(Policy::gcra(name, Quota::per_minute(permits)))
}

#[tokio::test]
async fn refusals_block_a_key_and_a_block_is_not_prolonged_and_doubles() {
    let (rule, clock) = blocking(2);
    let service = RateLimitLayer::all([rule.clone()]).layer(service_fn(hello));
    let key = CLIENT.into();
    // Two are admitted, and the third refusal blocks.
    assert_eq!(statuses(&service, 5).await, [200, 200, 429, 429, 429]);
    assert_eq!(rule.blocked_for(&key).await.unwrap(), 5 * MINUTE);
    clock.advance(4 * MINUTE);
    // The permits are back, but the key is blocked, and that charges nothing.
    assert_eq!(statuses(&service, 10).await, [429; 10]);
    assert_eq!(rule.blocked_for(&key).await.unwrap(), MINUTE);
    assert_eq!(rule.peek(&key).await.unwrap().remaining(), 2);
    let refused = send(&service, request()).await;
    assert_eq!(header(refused.headers(), "retry-after"), Some("60"));
    // Others are not.
    assert_eq!(send(&service, request_from("192.0.2.2")).await.status(), 200);
    clock.advance(MINUTE);
    assert_eq!(statuses(&service, 5).await, [200, 200, 429, 429, 429]);
    assert_eq!(rule.blocked_for(&key).await.unwrap(), 10 * MINUTE);
    rule.reset(&key).await.unwrap();
    assert_eq!(statuses(&service, 2).await, [200, 200]);
}

#[tokio::test]
async fn a_blocked_key_charges_no_other_rule_and_is_reported() {
    let (blocking, _) = limiter("api", 1);
    let (other, _) = limiter("all", 100);
    let rule = Rule::new(blocking, ClientIp::peer()).block(block()).unwrap();
    let all = Rule::new(other, FixedKey::new("all"));
    let layer =
        RateLimitLayer::all([all.clone(), rule]).answers(Answers::new().refuse_with(problem_json));
    let service = layer.layer(service_fn(hello));
    assert_eq!(statuses(&service, 4).await, [200, 429, 429, 429]);
    assert_eq!(statuses(&service, 5).await, [429; 5]);
    assert_eq!(all.peek(&"all".into()).await.unwrap().remaining(), 99);
    let refused = send(&service, request()).await;
    let problem: Value = serde_json::from_str(&text(refused).await).unwrap();
    assert!(problem["type"].as_str().unwrap().ends_with("#abnormal-usage-detected"), "{problem}");
    assert_eq!(problem["retry-after"], 300);
    assert_eq!(problem["violated-policies"], json!(["api"]));
}

#[tokio::test]
async fn chosen_responses_are_strikes_of_any_user() {
    let (limiter, clock) = limiter("login", 100);
    let account = HeaderKey::new(HeaderName::from_static("x-account")).assume_verified();
    let key = (ClientIp::peer(), account.or_shared());
    let rule = Rule::new(limiter, key)
        .block_by_response(block().clear_on_success(), |response| match response.status.as_u16() {
            303 => Strike::Success,
            404 => Strike::Ignore,
            _ => Strike::Count,
        })
        .unwrap();
    let service = RateLimitLayer::all([rule]).layer(service_fn(named));
    let status = async |status| send(&service, request_for(status)).await.status().as_u16();
    for (sent, received) in [(401, 401), (404, 404), (401, 401), (303, 303)] {
        assert_eq!(status(sent).await, received);
    }
    // The success has cleared the strikes. A status that nobody thought of is one.
    for (sent, received) in [(401, 401), (500, 500), (418, 418), (303, 429)] {
        assert_eq!(status(sent).await, received);
    }
    clock.advance(5 * MINUTE);
    assert_eq!(status(303).await, 303);
}

#[tokio::test]
async fn a_shadow_counts_strikes_and_refuses_nobody() {
    let rule = blocking(1).0.with_mode(Mode::SHADOW);
    let service = RateLimitLayer::all([rule.clone()]).layer(service_fn(hello));
    assert_eq!(statuses(&service, 6).await, [200; 6]);
    let key = CLIENT.into();
    assert_eq!(rule.blocked_for(&key).await.unwrap(), 5 * MINUTE);
}

#[test]
fn a_block_that_is_impossible_is_an_error() {
    let error = by_address(limiter("api", 1).0).block(Block::after(0)).unwrap_err();
    assert_eq!(error.to_string(), "invalid block \"after 0\": use 1 to 1000000 strikes");
}

#[tokio::test]
async fn a_handler_reports_strikes_and_successes() {
    let (limiter, _) = limiter("login", 100);
    let block = block().clear_on_success();
    let rule =
        Rule::new(limiter, ClientIp::peer()).block_by_response(block, |_| Strike::Ignore).unwrap();
    let key = Key::from("alice");
    let check = async || rule.check(&key).await;
    for _ in 0..2 {
        check().await.unwrap().strike();
    }
    check().await.unwrap().success();
    for _ in 0..3 {
        check().await.unwrap().strike();
    }
    let refused = check().await.unwrap_err();
    assert!(refused.decisions().all(limiter_tower::observe::PolicyDecision::is_blocked));
    assert_eq!(refused.retry_after(), Some(5 * MINUTE));
}

#[test]
#[should_panic(expected = "two rules have a policy or limit named \"api-block\"; rename one")]
fn a_rule_with_the_name_of_anothers_block_is_refused() {
    drop(RateLimitLayer::all([blocking(1).0, by_address(limiter("api-block", 1).0)]));
}

/// It used to announce the limit's wait, so a client that obeyed it was refused by the block.
#[tokio::test]
async fn the_refusal_that_starts_a_block_announces_it() {
    let store = Deferred::new(limiter("api", 2).0).at_once();
    for rule in [blocking(2).0, by_address(store).block(block()).unwrap()] {
        let service = RateLimitLayer::all([rule]).layer(service_fn(hello));
        let mut waits = Vec::new();
        for _ in 0..6 {
            let response = send(&service, request()).await;
            waits.extend(header(response.headers(), "retry-after").map(str::to_owned));
        }
        // 30 s until a permit recovers; the third refusal starts the block.
        assert_eq!(waits, ["30", "30", "300", "300"]);
    }
}

/// Else a client that leaves at once would never be struck.
#[tokio::test]
async fn a_strike_through_a_store_counts_without_its_client() {
    let refusals = Arc::new(AtomicU32::new(0));
    let refused = Arc::clone(&refusals);
    let rule = Rule::new(Deferred::new(limiter("api", 1).0).at_once(), ClientIp::peer())
        .block(block())
        .unwrap()
        .observe(move |event| {
            refused.fetch_add(u32::from(event.outcome == Outcome::Denied), Relaxed);
        });
    let service = RateLimitLayer::all([rule.clone()]).layer(service_fn(hello));
    assert_eq!(statuses(&service, 1).await, [200]);
    for refusal in 1..=3 {
        let mut call = Box::pin(send(&service, request()));
        while refusals.load(Relaxed) < refusal {
            assert!(poll_once(call.as_mut()).is_none());
        }
        drop(call);
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
    let key = CLIENT.into();
    assert_eq!(rule.blocked_for(&key).await.unwrap(), 5 * MINUTE);
}
