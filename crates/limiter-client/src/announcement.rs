//! What a response announces about the limits of its server.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use http::{HeaderMap, HeaderName, HeaderValue};
use sfv::{BareItem, Item, List, ListEntry, Parser};

use crate::{pace::Pace, spend::Spend, times};

/// The most members of a field that are read.
const MAX_MEMBERS: usize = 16;

/// The most bytes of a field that are parsed. A longer one counts as absent.
const MAX_BYTES: usize = 4_096;

/// A limit in a window of at most so many seconds is spent evenly in any case: resets have whole seconds,
/// so a wait for each of them would waste a part of such a window, which may also be a sliding one.
const SHORT_WINDOW: u64 = 60;

/// The names of the fields with one value each.
const SINGLE: [[HeaderName; 3]; 2] = [
    [
        HeaderName::from_static("ratelimit-limit"),
        HeaderName::from_static("ratelimit-remaining"),
        HeaderName::from_static("ratelimit-reset"),
    ],
    [
        HeaderName::from_static("x-ratelimit-limit"),
        HeaderName::from_static("x-ratelimit-remaining"),
        HeaderName::from_static("x-ratelimit-reset"),
    ],
];

/// The limits of a server, as one response announces them.
///
/// It reads `RateLimit-Policy` and `RateLimit` by draft-ietf-httpapi-ratelimit-headers-08 to 11, the
/// single fields of drafts 03 to 06, and `X-RateLimit-*`. What it can't read counts as absent.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Announcement {
    limits: Vec<Limit>,
    /// Whether it has `X-RateLimit-*`.
    pub(crate) has_x_fields: bool,
}

/// What remains of a limit until its reset.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Allowance {
    pub(crate) remaining: u64,
    pub(crate) reset: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Limit {
    /// The permits of a window.
    quota: Option<u64>,
    /// In seconds.
    window: Option<u64>,
    /// How many of the permits can be taken at once.
    burst: Option<u64>,
    remaining: Option<u64>,
    /// For how many seconds that has to last.
    reset: Option<u64>,
}

impl Announcement {
    /// `now` is the time by the server's clock.
    pub(crate) fn read(headers: &HeaderMap, now: SystemTime) -> Self {
        let mut limits = policies(headers);
        let states = states(headers, now);
        for (name, state) in states {
            // Without a name it is of the policy with as many permits, or else of none.
            let name = name.unwrap_or_else(|| {
                let has_same_quota = |limit: &Limit| limit.quota == state.quota;
                let same =
                    limits.iter().find(|(_, limit)| limit.as_ref().is_some_and(has_same_quota));
                same.map(|(name, _)| name.clone()).unwrap_or_default()
            });
            if let Some(limit) = limits.entry(name).or_insert(Some(Limit::default())) {
                limit.quota = limit.quota.or(state.quota);
                (limit.remaining, limit.reset) = (state.remaining, state.reset);
            }
        }
        let [_, [name, remaining, _]] = &SINGLE;
        let has_x_fields = headers.contains_key(name) || headers.contains_key(remaining);
        Self { limits: limits.into_values().flatten().collect(), has_x_fields }
    }

    /// Returns the slowest pace of the limits that are spent evenly.
    pub(crate) fn pace(&self, spend: Spend) -> Option<Pace> {
        let even = self.limits.iter().filter(|limit| !limit.is_free(spend));
        even.filter_map(Limit::pace).reduce(Pace::slower)
    }

    /// Returns the smallest allowance of the limits that are spent freely.
    pub(crate) fn allowance(&self, spend: Spend) -> Option<Allowance> {
        let free = self.limits.iter().filter(|limit| limit.is_free(spend));
        let allowances = free.filter_map(Limit::allowance);
        allowances.min_by_key(|it| (it.remaining, std::cmp::Reverse(it.reset)))
    }

    /// Returns whether nothing remains of a limit.
    pub(crate) fn is_used_up(&self) -> bool {
        self.limits.iter().any(|limit| limit.remaining == Some(0))
    }

    /// Returns the time during which the server admits no more.
    pub(crate) fn pause(&self) -> Option<Duration> {
        let allowances = self.limits.iter().filter_map(Limit::allowance);
        allowances.filter(|it| it.remaining == 0).map(|it| it.reset).max()
    }
}

impl Limit {
    fn pace(&self) -> Option<Pace> {
        let whole = match (self.quota, self.window) {
            (Some(quota), Some(window)) => {
                Pace::announced(quota, Duration::from_secs(window), self.burst)
            }
            _ => None,
        };
        // Seconds are rounded up, so the real time may be nearly one less.
        let left = match (self.remaining, self.reset) {
            (Some(remaining @ 1..), Some(reset @ 2..)) => {
                Pace::of_remainder(remaining, Duration::from_secs(reset - 1))
            }
            _ => None,
        };
        match (whole, left) {
            (Some(whole), Some(left)) if left.rate() >= whole.rate() => Some(whole),
            (whole, left) => left.or(whole),
        }
    }

    /// Returns whether it is spent freely: it is long, and what remains is known.
    fn is_free(&self, spend: Spend) -> bool {
        let is_short = self.window.is_some_and(|window| window <= SHORT_WINDOW);
        let is_known = self.remaining.is_some() && self.reset.is_some();
        spend == Spend::Freely && !is_short && is_known
    }

    /// A reset in one second says nothing, because it may be the rounded part of one.
    fn allowance(&self) -> Option<Allowance> {
        let (remaining, reset) = (self.remaining?, self.reset.filter(|reset| *reset > 1)?);
        Some(Allowance { remaining, reset: Duration::from_secs(reset) })
    }
}

/// Returns the policies by name: `None` for those that count no requests, but bytes for instance.
fn policies(headers: &HeaderMap) -> BTreeMap<String, Option<Limit>> {
    let mut limits = BTreeMap::new();
    for item in list(headers, "ratelimit-policy").into_iter().flatten() {
        let integer = |name: &str| whole(item.params.get(name)?);
        let unit = item.params.get("qu").and_then(name);
        let counts_requests = unit.is_none_or(|unit| unit == "requests");
        let (name, quota) = match (name(&item.bare_item), whole(&item.bare_item)) {
            (Some(name), _) => (name, integer("q")),
            // As drafts 03 to 06 have it: the quota itself, which may be that of several windows.
            (None, Some(quota)) => (format!("{quota} in {:?}", integer("w")), Some(quota)),
            (None, None) => continue,
        };
        let burst = integer("limiter-burst").or(integer("burst"));
        let limit = Limit { quota, window: integer("w"), burst, ..Limit::default() };
        limits.insert(name, counts_requests.then_some(limit));
    }
    limits
}

/// Returns what remains, by the name of the policy if there are names.
fn states(headers: &HeaderMap, now: SystemTime) -> Vec<(Option<String>, Limit)> {
    if let Some(items) = list(headers, "ratelimit") {
        let member = |item: Item| {
            let integer = |name: &str| whole(item.params.get(name)?);
            // The draft is to rename `r` and `t` to `a` and `w`.
            let remaining = integer("r").or_else(|| integer("a"));
            let reset = integer("t").or_else(|| integer("w"));
            let limit = Limit { remaining, reset, ..Limit::default() };
            Some((Some(name(&item.bare_item)?), limit))
        };
        return items.into_iter().filter_map(member).collect();
    }
    SINGLE
        .iter()
        .find_map(|names| single(headers, names, now))
        .map(|it| (None, it))
        .into_iter()
        .collect()
}

fn list(headers: &HeaderMap, field: &str) -> Option<Vec<Item>> {
    let list: List = Parser::new(&joined(headers, field)?).parse().ok()?;
    let items = list.into_iter().filter_map(|entry| match entry {
        ListEntry::Item(item) => Some(item),
        ListEntry::InnerList(_) => None,
    });
    Some(items.take(MAX_MEMBERS).collect())
}

fn single(headers: &HeaderMap, names: &[HeaderName; 3], now: SystemTime) -> Option<Limit> {
    let [quota, remaining, reset] = names.each_ref().map(|name| headers.get(name)?.to_str().ok());
    // Some servers have fractions, and drafts 03 to 06 have lists of policies.
    let number = |text: &str| text.split([',', ';', '.']).next()?.trim().parse::<u64>().ok();
    let (quota, remaining) = (quota.and_then(number), remaining.and_then(number));
    let reset = reset.and_then(|text| times::reset(text, now));
    remaining.or(quota).map(|_| Limit { quota, remaining, reset, ..Limit::default() })
}

fn joined(headers: &HeaderMap, field: &str) -> Option<Vec<u8>> {
    let lines: Vec<_> = headers.get_all(field).iter().map(HeaderValue::as_bytes).collect();
    let value = lines.join(&b", "[..]);
    (!lines.is_empty() && value.len() <= MAX_BYTES).then_some(value)
}

fn name(item: &BareItem) -> Option<String> {
    match item {
        BareItem::String(name) => Some(name.as_str().to_owned()),
        BareItem::Token(name) => Some(name.as_str().to_owned()),
        _ => None,
    }
}

fn whole(item: &BareItem) -> Option<u64> {
    u64::try_from(item.as_integer()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `X-RateLimit-*` names three, and `-Reset` follows another one of its kind.
    #[test]
    fn the_readme_names_each_field() {
        let readme = include_str!("../README.md").to_lowercase();
        for name in SINGLE.as_flattened() {
            let (stem, last) = name.as_str().rsplit_once('-').unwrap_or_default();
            let forms = [name.to_string(), format!("{stem}-*"), format!("-{last}")];
            let is_named = forms.iter().any(|form| readme.contains(&format!("`{form}`")));
            assert!(is_named, "{name} is not in README.md");
        }
    }
}
