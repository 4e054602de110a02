//! Which header fields report the decisions.

use std::{
    cmp::Reverse,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use http::{HeaderMap, HeaderName, HeaderValue, header::RETRY_AFTER};

use super::grpc;
use crate::{
    decisions::{InFlightDecision, Reported},
    fields::{DRAFT_11, List, MAX_INTEGER, NEXT_DRAFT, Names, integer, whole_seconds},
};

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The limit, what remains and the reset of [`Headers::RateLimitReset`]. Statics, because a name in text
/// would be parsed and allocated with each response.
static RESET_FIELDS: [HeaderName; 3] = [
    HeaderName::from_static("ratelimit-limit"),
    HeaderName::from_static("ratelimit-remaining"),
    HeaderName::from_static("ratelimit-reset"),
];

/// Those of [`Headers::XRateLimit`].
static X_FIELDS: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit"),
    HeaderName::from_static("x-ratelimit-remaining"),
    HeaderName::from_static("x-ratelimit-reset"),
];

/// Which header fields report quotas and what remains of them.
///
/// `Retry-After` does not depend on this choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Headers {
    /// `RateLimit-Policy` and `RateLimit`, with a member for each policy, by
    /// draft-ietf-httpapi-ratelimit-headers-11. The default.
    #[default]
    RateLimit,
    /// The same, with the parameters of `RateLimit` that [are proposed] for the next draft: `a` and `w` in place of `r`
    /// and `t`, and `c`, what the request cost.
    ///
    /// It follows the proposal, so what it sends may change in any release until there is that draft.
    ///
    /// [are proposed]: https://github.com/ietf-wg-httpapi/ratelimit-headers/pull/166
    RateLimitNext,
    /// `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset`, in seconds from now, as
    /// draft-ietf-httpapi-ratelimit-headers-03 to 06 define them. They report the most restrictive
    /// decision.
    ///
    /// The reset is when all permits have recovered, or after a refusal when to retry. A cost that
    /// never fits has none.
    RateLimitReset,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`, which report the most
    /// restrictive decision as [`RateLimitReset`](Self::RateLimitReset) does.
    XRateLimit(Reset),
    /// Those of [`RateLimit`](Self::RateLimit) and of [`XRateLimit`](Self::XRateLimit), while clients
    /// move from one to the other.
    RateLimitAndX(Reset),
    /// None.
    None,
}

/// What `X-RateLimit-Reset` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reset {
    /// Seconds from now, as Envoy and most others.
    Delta,
    /// Seconds since the Unix epoch, as GitHub.
    Epoch,
}

impl Headers {
    /// Returns the names of these fields, of `Retry-After` and of the fields that gRPC-Web clients read,
    /// for `Access-Control-Expose-Headers`: without it a page from another origin reads none of them.
    ///
    /// ```
    /// use limiter_tower::headers::Headers;
    /// use tower_http::cors::CorsLayer;
    ///
    /// let cors = CorsLayer::new().expose_headers(Headers::default().exposed());
    /// ```
    #[must_use]
    pub fn exposed(self) -> Vec<HeaderName> {
        let mut names = vec![RETRY_AFTER];
        names.extend(grpc::FIELDS);
        if self.lists().is_some() {
            names.extend([RATELIMIT_POLICY, RATELIMIT]);
        }
        if let Some((single, _)) = self.single() {
            names.extend(single.iter().cloned());
        }
        names
    }

    /// Returns the fields of these decisions. Only the lists have members for limits on requests in flight, because the
    /// other fields have a reset, and nothing resets those limits.
    pub(crate) fn fields<'d>(
        self,
        reported: impl Iterator<Item = Reported<'d>> + Clone,
        in_flight: impl Iterator<Item = &'d InFlightDecision> + Clone,
    ) -> Option<ResponseFields> {
        let lists = self.lists().and_then(|names| lists(names, reported.clone(), in_flight));
        let single = self.single().and_then(|(names, reset)| strictest(names, reset, reported));
        (lists.is_some() || single.is_some()).then_some(ResponseFields { lists, single })
    }

    /// Returns the parameters' names, if there are `RateLimit-Policy` and `RateLimit`.
    const fn lists(self) -> Option<&'static Names> {
        match self {
            Self::RateLimit | Self::RateLimitAndX(_) => Some(&DRAFT_11),
            Self::RateLimitNext => Some(&NEXT_DRAFT),
            Self::RateLimitReset | Self::XRateLimit(_) | Self::None => None,
        }
    }

    /// Returns the names of the fields with one value each, and what the reset counts.
    const fn single(self) -> Option<(&'static [HeaderName; 3], Reset)> {
        match self {
            Self::RateLimitReset => Some((&RESET_FIELDS, Reset::Delta)),
            Self::XRateLimit(reset) | Self::RateLimitAndX(reset) => Some((&X_FIELDS, reset)),
            Self::RateLimit | Self::RateLimitNext | Self::None => None,
        }
    }
}

/// The fields that a response gets.
pub(crate) struct ResponseFields {
    lists: Option<Lists>,
    /// In a box, so that the common fields are moved faster.
    single: Option<Box<Strictest>>,
}

/// Lists with a member for each policy.
struct Lists {
    policies: HeaderValue,
    members: HeaderValue,
}

/// Single values, of the most restrictive decision.
struct Strictest {
    names: &'static [HeaderName; 3],
    limit: u64,
    remaining: u64,
    /// `None` if the cost never fits.
    reset: Option<u64>,
}

impl ResponseFields {
    /// Returns whether some may replace those of an inner layer.
    pub(crate) const fn overwrites(&self) -> bool {
        self.single.is_some()
    }

    /// Adds the fields to those of inner layers. `is_refusal` if one of these made the response: its single values stay.
    pub(crate) fn append_to(self, headers: &mut HeaderMap, is_refusal: bool) {
        if let Some(Lists { policies, members }) = self.lists {
            headers.append(RATELIMIT_POLICY, policies);
            headers.append(RATELIMIT, members);
        }
        if let Some(single) = self.single.filter(|_| !is_refusal) {
            single.insert_into(headers);
        }
    }
}

impl Strictest {
    /// Inserts the fields, unless those of an inner layer are as restrictive.
    fn insert_into(self, headers: &mut HeaderMap) {
        if !self.is_stricter_than(headers) {
            return;
        }
        let [limit, remaining, reset] = self.names;
        headers.insert(limit, integer(self.limit));
        headers.insert(remaining, integer(self.remaining));
        match self.reset {
            Some(seconds) => headers.insert(reset, integer(seconds)),
            None => headers.remove(reset),
        };
    }

    /// Returns whether the decision is more restrictive than what the fields of an inner layer report.
    fn is_stricter_than(&self, headers: &HeaderMap) -> bool {
        let [_, remaining, reset] = self.names;
        let reported = |name: &HeaderName| headers.get(name)?.to_str().ok()?.parse::<u64>().ok();
        let has_all = self.names.iter().all(|name| headers.contains_key(name));
        let Some(inner) = reported(remaining).filter(|_| has_all) else {
            return true;
        };
        let key = |remaining, reset: Option<u64>| (remaining, Reverse(reset.unwrap_or(u64::MAX)));
        key(self.remaining, self.reset) < key(inner, reported(reset))
    }
}

fn lists<'d>(
    names: &Names,
    reported: impl Iterator<Item = Reported<'d>> + Clone,
    in_flight: impl Iterator<Item = &'d InFlightDecision> + Clone,
) -> Option<Lists> {
    let in_flight = in_flight.filter(|it| it.is_public());
    let mut members = List::default();
    for it in reported.clone() {
        it.plan.fields().add_member(&mut members, it.decision, it.cost, it.charged, names);
    }
    for it in in_flight.clone() {
        members.add_in_flight_member(&it.rule, it.occupancy.remaining(), names);
    }
    let members = members.into_value()?;
    let policies = policies(reported.map(|it| it.plan.fields().policy(it.decision)), in_flight)?;
    Some(Lists { policies, members })
}

/// Returns the members of `RateLimit-Policy`. A single one is not copied.
fn policies<'d>(
    mut of_rules: impl Iterator<Item = HeaderValue>,
    in_flight: impl Iterator<Item = &'d InFlightDecision>,
) -> Option<HeaderValue> {
    let (first, second, mut in_flight) = (of_rules.next(), of_rules.next(), in_flight.peekable());
    if second.is_none() && in_flight.peek().is_none() {
        return first;
    }
    let mut policies = List::default();
    for policy in first.into_iter().chain(second).chain(of_rules) {
        policies.add(&[policy.to_str().unwrap_or_default()]);
    }
    for it in in_flight {
        policies.add_in_flight_policy(&it.rule, it.occupancy.limit());
    }
    policies.into_value()
}

fn strictest<'d>(
    names: &'static [HeaderName; 3],
    counted: Reset,
    reported: impl Iterator<Item = Reported<'d>>,
) -> Option<Box<Strictest>> {
    let strictness = |it: &Reported<'_>| {
        let decision = it.decision;
        (decision.is_admitted(), decision.remaining(), Reverse(decision.reset_after()))
    };
    let decision = reported.min_by_key(strictness)?.decision;
    let reset = match decision.is_admitted() {
        true => Some(decision.reset_after()),
        false => decision.retry_after(),
    };
    Some(Box::new(Strictest {
        names,
        limit: decision.burst().min(MAX_INTEGER),
        remaining: decision.remaining().min(MAX_INTEGER),
        reset: reset.map(|wait| counted.seconds(wait)),
    }))
}

impl Reset {
    /// Returns the end of a wait.
    fn seconds(self, wait: Duration) -> u64 {
        match self {
            Self::Delta => whole_seconds(wait),
            Self::Epoch => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                whole_seconds(now.saturating_add(wait))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::iter::successors;

    use super::{Headers, Reset};

    /// Returns one of each choice. A new one fails to compile here.
    fn each() -> impl Iterator<Item = Headers> {
        successors(Some(Headers::RateLimit), |last| match last {
            Headers::RateLimit => Some(Headers::RateLimitNext),
            Headers::RateLimitNext => Some(Headers::RateLimitReset),
            Headers::RateLimitReset => Some(Headers::XRateLimit(Reset::Delta)),
            Headers::XRateLimit(_) => Some(Headers::RateLimitAndX(Reset::Delta)),
            Headers::RateLimitAndX(_) => Some(Headers::None),
            Headers::None => None,
        })
    }

    // `tests/it/dialect_choices.rs` tests each choice that has a row.
    #[test]
    fn the_guide_has_a_row_for_each_choice() {
        let guide = include_str!("../../docs/guide/refusals.md");
        for choice in each() {
            let choice = format!("{choice:?}");
            let name = choice.split('(').next().unwrap_or_default();
            assert!(guide.contains(&format!("\n| `{name}` |")), "no row for {name} in refusals.md");
        }
    }
}
