//! The structured fields, read back by an independent parser.

use std::time::Duration;

use limiter_core::{MemoryLimiter, Policy, Quota};
use limiter_tower::RateLimitLayer;
use sfv::{BareItem, List, ListEntry, Parser};
use tower::{Layer, service_fn};

use crate::{hello, request_from, send};

/// A field's only member: its name and its integer parameters, in order.
type Member = (String, Vec<(String, i64)>);

fn parse(field: &http::HeaderValue) -> Member {
    let list: List = Parser::new(field.as_bytes()).parse().unwrap();
    let [ListEntry::Item(item)] = list.as_slice() else { panic!("one item: {field:?}") };
    let BareItem::String(name) = &item.bare_item else { panic!("a string: {field:?}") };
    let parameters = item.params.iter().map(|(key, value)| {
        let BareItem::Integer(value) = value else { panic!("an integer: {field:?}") };
        (key.as_str().to_owned(), (*value).into())
    });
    (name.as_str().to_owned(), parameters.collect())
}

async fn fields(name: &str, quota: Quota) -> (Member, Member) {
    let limiter = MemoryLimiter::new(Policy::gcra(name, quota));
    let service = RateLimitLayer::new(limiter).layer(service_fn(hello));
    let response = send(&service, request_from("192.0.2.1")).await;
    let field = |name| parse(response.headers().get(name).unwrap());
    (field("ratelimit-policy"), field("ratelimit"))
}

fn member(name: &str, parameters: [(&str, i64); 2]) -> Member {
    (name.to_owned(), parameters.map(|(key, value)| (key.to_owned(), value)).into())
}

#[tokio::test]
async fn every_policy_name_is_carried() {
    for name in ["default", "a b", r#"quoted " and \"#, "~!,;="] {
        let (policy, limit) = fields(name, Quota::per_hour(100)).await;
        assert_eq!(policy, member(name, [("q", 100), ("w", 3_600)]));
        assert_eq!(limit, member(name, [("r", 99), ("t", 3_564)]));
    }
}

#[tokio::test]
async fn a_window_of_a_fraction_of_a_second_is_given_in_whole_seconds() {
    let rows = [(5, 100, 50, 1), (3, 1_500, 4, 2), (1, 1, 1_000, 1), (7, 2_000, 7, 2)];
    for (permits, milliseconds, q, w) in rows {
        let quota = Quota::new(permits, Duration::from_millis(milliseconds)).unwrap();
        let (policy, _) = fields("p", quota).await;
        assert_eq!(policy, member("p", [("q", q), ("w", w)]), "{quota}");
    }
}

#[tokio::test]
async fn large_numbers_stay_within_the_range_of_a_field() {
    let quota = Quota::new(1_000_000 * 86_400 * 366, Quota::MAX_WINDOW).unwrap();
    let quota = quota.with_burst(quota.permits() * 5);
    let (policy, limit) = fields("p", quota).await;
    assert_eq!(policy, member("p", [("q", 31_622_400_000_000), ("w", 31_622_400)]));
    assert_eq!(limit, member("p", [("r", 158_111_999_999_999), ("t", 158_112_000)]));
}

#[tokio::test]
async fn a_fraction_of_a_second_is_rounded_up() {
    // 9 permits at 7 a minute: 77.1 s.
    let quota = Quota::per_minute(7).with_burst(10);
    assert_eq!(fields("p", quota).await.1, member("p", [("r", 9), ("t", 78)]));
}

#[tokio::test]
async fn a_burst_above_the_quota_gives_the_same_rate() {
    let quota = Quota::per_second(10).with_burst(100);
    let (policy, limit) = fields("p", quota).await;
    assert_eq!(policy, member("p", [("q", 10), ("w", 1)]));
    assert_eq!(limit, member("p", [("r", 99), ("t", 10)]));
}
