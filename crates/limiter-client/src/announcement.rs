//! What a response announces about the limits of its server.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use http::{HeaderMap, HeaderName, HeaderValue, header::RETRY_AFTER};
use sfv::{BareItem, Dictionary, Item, List, ListEntry, Parser};

use crate::pace::Pace;

/// The most members of a field that are read.
const MAX_MEMBERS: usize = 16;

/// A reset above this is a moment of Unix time, and no number of seconds.
const EPOCH_FROM: u64 = 1_000_000_000;

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
/// one dictionary of draft 07, the single fields of drafts 03 to 06, and `X-RateLimit-*`. What it can't
/// read counts as absent.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Announcement {
    limits: Vec<Limit>,
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
    pub(crate) fn read(headers: &HeaderMap) -> Self {
        let mut limits = policies(headers);
        let states = states(headers);
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
        Self { limits: limits.into_values().flatten().collect() }
    }

    /// Returns the slowest pace of all limits.
    pub(crate) fn pace(&self) -> Option<Pace> {
        self.limits.iter().filter_map(Limit::pace).reduce(Pace::slower)
    }

    /// Returns the time during which the server admits no more.
    pub(crate) fn pause(&self) -> Option<Duration> {
        self.limits.iter().filter_map(Limit::pause).max()
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

    /// One second says nothing, because it may be the rounded part of one.
    fn pause(&self) -> Option<Duration> {
        let seconds = self.reset.filter(|reset| self.remaining == Some(0) && *reset > 1)?;
        Some(Duration::from_secs(seconds))
    }
}

/// Returns the time of `Retry-After`, in seconds or as a date.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
        // More digits than a number has are for ever.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    // A date has whole seconds.
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
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
            // As drafts 03 to 07 have it: the quota itself, which may be that of several windows.
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
fn states(headers: &HeaderMap) -> Vec<(Option<String>, Limit)> {
    if let Some(items) = list(headers, "ratelimit") {
        let member = |item: Item| {
            let integer = |name: &str| whole(item.params.get(name)?);
            let limit = Limit { remaining: integer("r"), reset: integer("t"), ..Limit::default() };
            Some((Some(name(&item.bare_item)?), limit))
        };
        return items.into_iter().filter_map(member).collect();
    }
    if let Some(state) = dictionary(headers) {
        return vec![(None, state)];
    }
    SINGLE
        .iter()
        .find_map(|names| single(headers, names))
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

/// Reads `limit=100, remaining=50, reset=30`, as draft 07 has it.
fn dictionary(headers: &HeaderMap) -> Option<Limit> {
    let members: Dictionary = Parser::new(&joined(headers, "ratelimit")?).parse().ok()?;
    let integer = |name: &str| match members.get(name)? {
        ListEntry::Item(item) => whole(&item.bare_item),
        ListEntry::InnerList(_) => None,
    };
    Some(Limit {
        quota: integer("limit"),
        remaining: integer("remaining"),
        reset: integer("reset"),
        ..Limit::default()
    })
}

fn single(headers: &HeaderMap, names: &[HeaderName; 3]) -> Option<Limit> {
    let [quota, remaining, reset] = names.each_ref().map(|name| {
        let text = headers.get(name)?.to_str().ok()?;
        // Some servers have fractions, and drafts 03 to 06 have lists of policies.
        text.split([',', ';', '.']).next()?.trim().parse::<u64>().ok()
    });
    let reset = reset.map(|reset| if reset > EPOCH_FROM { until(reset) } else { reset });
    remaining.or(quota).map(|_| Limit { quota, remaining, reset, ..Limit::default() })
}

/// Returns the seconds until a moment of Unix time, rounded up.
fn until(unix_seconds: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    unix_seconds.saturating_sub(now.as_secs())
}

fn joined(headers: &HeaderMap, field: &str) -> Option<Vec<u8>> {
    let lines: Vec<_> = headers.get_all(field).iter().map(HeaderValue::as_bytes).collect();
    if lines.is_empty() { None } else { Some(lines.join(&b", "[..])) }
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
