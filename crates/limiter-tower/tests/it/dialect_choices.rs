//! What holds for each choice of header fields.

use std::collections::BTreeSet;

use limiter_core::InFlight;

use crate::*;

pub(crate) const EACH: [Headers; 8] = [
    Headers::RateLimit,
    Headers::RateLimitNext,
    Headers::RateLimitReset,
    Headers::XRateLimit(Reset::Delta),
    Headers::XRateLimit(Reset::Epoch),
    Headers::RateLimitAndX(Reset::Delta),
    Headers::RateLimitAndX(Reset::Epoch),
    Headers::None,
];

const DISCLOSURES: [Disclosure; 3] =
    [Disclosure::Full, Disclosure::RetryAfterOnly, Disclosure::None];

/// Returns the name of a choice, without what its reset counts.
pub(crate) fn name(choice: Headers) -> String {
    format!("{choice:?}").split('(').next().unwrap().to_owned()
}

#[test]
fn each_choice_of_the_guide_is_in_the_list() {
    let guide = include_str!("../../docs/guide/refusals.md");
    let (_, rows) = guide.split_once("| choice | fields, of a request with a cost of 2 |").unwrap();
    let rows = rows.lines().skip(2).take_while(|line| line.starts_with('|'));
    let choices: BTreeSet<_> = rows.map(|row| row.split('`').nth(1).unwrap().to_owned()).collect();
    assert_eq!(choices, EACH.map(name).into());
}

/// Returns decisions of each kind, by each source.
fn decisions() -> impl Iterator<Item = Decision> {
    let (some, none) =
        (Usage::new(10, 4, Duration::from_secs(36)), Usage::new(10, 0, Duration::from_secs(60)));
    let of_state = [
        Decision::admitted(some),
        Decision::refused(none, Some(Duration::from_secs(6))),
        Decision::refused(some, None),
        // Of a limit that the policy does not have.
        Decision::admitted(some.with_limit_index(7)),
    ];
    let sources = [Source::State, Source::Cache, Source::Lease, Source::FullTable, Source::Local];
    of_state.into_iter().flat_map(move |it| sources.map(|source| it.with_source(source)))
}

/// Sends a request, checks the response, and returns how many policies `RateLimit` has.
async fn checked(layer: &RateLimitLayer) -> usize {
    members(send(&layer.layer(service_fn(hello)), request()).await.headers())
}

/// Returns how many policies the list `RateLimit` has, each of which must be in `RateLimit-Policy`.
fn members(headers: &HeaderMap) -> usize {
    let has = |field| headers.contains_key(field);
    if !has("ratelimit") {
        return 0;
    }
    assert!(has("ratelimit-policy"), "RateLimit without RateLimit-Policy: {headers:?}");
    let [members, policies] = ["ratelimit", "ratelimit-policy"]
        .map(|field| structured::names(headers, field).into_iter().collect::<BTreeSet<_>>());
    assert!(members.is_subset(&policies), "RateLimit without a policy: {headers:?}");
    members.len()
}

pub(crate) fn has_lists(choice: Headers) -> bool {
    choice.exposed().iter().any(|field| field == "ratelimit")
}

#[tokio::test]
async fn a_rule_never_reports_what_is_available_without_its_policy() {
    for choice in EACH {
        let mut reported = 0;
        for decision in decisions() {
            for (disclosure, mode) in
                DISCLOSURES.into_iter().flat_map(|it| [(it, Mode::ENFORCE), (it, Mode::SHADOW)])
            {
                let rule = by_address(returning(Ok(decision)));
                let rule = rule.disclose(disclosure).with_mode(mode);
                reported +=
                    checked(&RateLimitLayer::all([rule]).answers(Answers::new().headers(choice)))
                        .await;
            }
        }
        assert_eq!(reported > 0, has_lists(choice), "{choice:?}");
    }
}

#[tokio::test]
async fn several_rules_never_report_what_is_available_without_their_policies() {
    for choice in EACH {
        let mut most = 0;
        for (first, second) in pairs() {
            for (of_in_flight, is_full) in
                DISCLOSURES.into_iter().flat_map(|it| [(it, false), (it, true)])
            {
                let rule = |name, permits, disclosure| {
                    let policy = Policy::gcra(name, Quota::per_minute(permits));
                    for_all(limiter_of(policy).0).disclose(disclosure)
                };
                let rules = [rule("first", 2, first), rule("second", 10, second)];
                let uploads = InFlight::new("uploads", 1).unwrap();
                let _held = is_full.then(|| uploads.try_enter("all"));
                let uploads = InFlightRule::new(uploads, FixedKey::new("all"));
                let uploads = uploads.disclose(of_in_flight);
                let answers = Answers::new().headers(choice);
                let uploads = InFlightLayer::all([uploads]).answers(answers.clone());
                let layers =
                    [RateLimitLayer::all(rules.clone()), RateLimitLayer::all(rules).decisions()];
                // The third is refused by the first rule.
                for _ in 0..3 {
                    let service = uploads.layer(service_fn(hello));
                    let response = service.oneshot(request()).await.unwrap();
                    most = most.max(members(response.headers()));
                    for layer in &layers {
                        let layer = layer.clone().answers(answers.clone());
                        most = most.max(checked(&layer).await);
                    }
                }
            }
        }
        assert_eq!(most, if has_lists(choice) { 2 } else { 0 }, "{choice:?}");
    }
}

fn pairs() -> impl Iterator<Item = (Disclosure, Disclosure)> {
    DISCLOSURES.into_iter().flat_map(|first| DISCLOSURES.map(|second| (first, second)))
}
