//! What a response announces about the limits of its server.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use http::HeaderMap;
use sfv::{BareItem, Item, List, ListEntry, Parser};

use crate::{
    fields::{joined, texts},
    pace::Pace,
    spend::Spend,
    times::until,
};

/// The most members of a field that are read.
const MAX_MEMBERS: usize = 16;

/// A limit in a window of at most this length is spent evenly in any case: resets have whole seconds,
/// so a wait for each of them would waste a part of such a window, which may also be a sliding one.
const SHORT_WINDOW: Duration = Duration::from_secs(60);

const SECOND: Duration = Duration::from_secs(1);

/// Fields with one value each: a limit, what remains of it, and its reset, by the first of several fields
/// that has one. README.md says whose they are.
const REQUESTS: [&[&str]; 5] = [
    &["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"],
    &["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset-after", "x-ratelimit-reset"],
    &["x-rate-limit-limit", "x-rate-limit-remaining", "x-rate-limit-reset"],
    &["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"],
    &[
        "anthropic-ratelimit-requests-limit",
        "anthropic-ratelimit-requests-remaining",
        "anthropic-ratelimit-requests-reset",
    ],
];

/// The same for what is not counted in requests. It only matters that nothing remains.
const TOKENS: [&[&str]; 4] = [
    &["x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"],
    &[
        "anthropic-ratelimit-tokens-limit",
        "anthropic-ratelimit-tokens-remaining",
        "anthropic-ratelimit-tokens-reset",
    ],
    &[
        "anthropic-ratelimit-input-tokens-limit",
        "anthropic-ratelimit-input-tokens-remaining",
        "anthropic-ratelimit-input-tokens-reset",
    ],
    &[
        "anthropic-ratelimit-output-tokens-limit",
        "anthropic-ratelimit-output-tokens-remaining",
        "anthropic-ratelimit-output-tokens-reset",
    ],
];

/// How much of a bucket is used, and its size: `39/40`.
const LEVEL: &str = "x-shopify-shop-api-call-limit";

/// The limits of a server, as one response announces them. What can't be read counts as absent.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Announcement {
    limits: Vec<Limit>,
    /// Whether it has fields with one value each.
    pub(crate) has_single_fields: bool,
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
    window: Option<Duration>,
    /// How many of the permits can be taken at once.
    burst: Option<u64>,
    remaining: Option<u64>,
    /// For how long that has to last.
    reset: Option<Duration>,
    /// Whether permits are not requests. Then it only matters that none remains.
    is_other_unit: bool,
}

impl Announcement {
    /// `now` is the time by the server's clock.
    pub(crate) fn read(headers: &HeaderMap, now: SystemTime) -> Self {
        let mut limits = policies(headers);
        let members = members(headers);
        let single = if members.is_none() { single(headers, now) } else { Vec::new() };
        let has_single_fields = !single.is_empty();
        for (name, state) in members.into_iter().flatten() {
            limits.entry(name).or_default().add(&state);
        }
        // A limit of requests in flight has neither a window nor a reset: it does not name a time to wait for.
        let is_of_time = |it: &Limit| !it.is_other_unit || it.until_reset().is_some();
        let mut limits: Vec<_> = limits.into_values().filter(is_of_time).collect();
        let policies = limits.len();
        for state in single {
            // It is of the policy with as many permits, or else of none.
            let is_of = |it: &&mut Limit| {
                state.quota.is_some()
                    && it.quota == state.quota
                    && it.is_other_unit == state.is_other_unit
            };
            match limits.iter_mut().take(policies).find(is_of) {
                Some(limit) => limit.add(&state),
                None => limits.push(state),
            }
        }
        Self { limits, has_single_fields }
    }

    /// Returns the slowest pace of the limits that are spent evenly.
    pub(crate) fn pace(&self, spend: Spend) -> Option<Pace> {
        let even = self.limits.iter().filter(|it| !it.is_other_unit && !it.is_free(spend));
        even.filter_map(Limit::pace).reduce(Pace::slower)
    }

    /// Returns the smallest allowance of the limits that are spent freely.
    pub(crate) fn allowance(&self, spend: Spend) -> Option<Allowance> {
        let free = self.limits.iter().filter(|it| !it.is_other_unit && it.is_free(spend));
        let allowances = free.filter_map(Limit::allowance);
        allowances.min_by_key(|it| (it.remaining, std::cmp::Reverse(it.reset)))
    }

    /// Returns whether nothing remains of a limit.
    pub(crate) fn is_used_up(&self) -> bool {
        self.limits.iter().any(|limit| limit.remaining == Some(0))
    }

    /// Returns the time during which the server admits no more: a second, if it does not announce that.
    pub(crate) fn pause(&self, is_refused: bool) -> Option<Duration> {
        let used_up = self.limits.iter().filter(|limit| limit.remaining == Some(0));
        let pause = |limit: &Limit| match limit.until_reset() {
            Some(reset) if is_refused => (!reset.is_zero()).then_some(reset),
            Some(_) => Some(limit.allowance()?.reset),
            None => Some(SECOND),
        };
        used_up.filter_map(pause).max()
    }
}

impl Limit {
    /// Sets what remains and the reset. Of several values, the slowest counts.
    fn add(&mut self, state: &Self) {
        self.remaining = self.remaining.into_iter().chain(state.remaining).min();
        self.reset = self.reset.max(state.reset);
    }

    fn pace(&self) -> Option<Pace> {
        let whole = match (self.quota, self.window) {
            (Some(quota @ 1..), Some(window)) => Pace::announced(quota, window, self.burst),
            _ => None,
        };
        // Seconds are rounded up, so the real time may be nearly one less.
        let left = match (self.remaining, self.reset) {
            (Some(remaining @ 1..), Some(reset)) if reset > SECOND => {
                Pace::of_remainder(remaining, reset - SECOND)
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
        let is_known = self.remaining.is_some() && self.until_reset().is_some();
        spend == Spend::Freely && !is_short && is_known
    }

    /// A reset in one second says nothing, because it may be the rounded part of one.
    fn allowance(&self) -> Option<Allowance> {
        let reset = self.until_reset().filter(|reset| *reset > SECOND)?;
        Some(Allowance { remaining: self.remaining?, reset })
    }

    /// Returns the time until the reset: without one, at most the window.
    fn until_reset(&self) -> Option<Duration> {
        self.reset.or(self.window)
    }
}

/// Returns the policies by name.
fn policies(headers: &HeaderMap) -> BTreeMap<String, Limit> {
    let mut limits = BTreeMap::new();
    for item in list(headers, "ratelimit-policy").into_iter().flatten() {
        let integer = |name: &str| whole(item.params.get(name)?);
        let unit = item.params.get("qu").and_then(name);
        let is_other_unit = unit.is_some_and(|unit| unit != "requests");
        let (name, quota) = match (name(&item.bare_item), whole(&item.bare_item)) {
            (Some(name), _) => (name, integer("q")),
            // As drafts 03 to 06 have it: the quota itself, which may be that of several windows.
            (None, Some(quota)) => (format!("{quota} in {:?}", integer("w")), Some(quota)),
            (None, None) => continue,
        };
        let burst = integer("limiter-burst").or(integer("burst"));
        let window = integer("w").map(Duration::from_secs);
        limits.insert(name, Limit { quota, window, burst, is_other_unit, ..Limit::default() });
    }
    limits
}

/// Returns what remains, by the name of the policy. A field without names counts as absent.
fn members(headers: &HeaderMap) -> Option<Vec<(String, Limit)>> {
    let member = |item: Item| {
        let integer = |name: &str| whole(item.params.get(name)?);
        // The draft is to rename `r` and `t` to `a` and `w`.
        let remaining = integer("r").or_else(|| integer("a"));
        let reset = integer("t").or_else(|| integer("w")).map(Duration::from_secs);
        Some((name(&item.bare_item)?, Limit { remaining, reset, ..Limit::default() }))
    };
    let members: Vec<_> = list(headers, "ratelimit")?.into_iter().filter_map(member).collect();
    (!members.is_empty()).then_some(members)
}

fn list(headers: &HeaderMap, field: &str) -> Option<Vec<Item>> {
    let list: List = Parser::new(&joined(headers, field)?).parse().ok()?;
    let items = list.into_iter().filter_map(|entry| match entry {
        ListEntry::Item(item) => Some(item),
        ListEntry::InnerList(_) => None,
    });
    Some(items.take(MAX_MEMBERS).collect())
}

/// Returns the limits of the fields with one value each.
fn single(headers: &HeaderMap, now: SystemTime) -> Vec<Limit> {
    let first = |text: &str| text.split([',', ';', '.']).next()?.trim().parse::<u64>().ok();
    // Drafts 03 to 06 have lists of policies behind the limit, one of which may be the limit itself with its window.
    let window = |text: &str| {
        let same = text.split(',').filter(|it| first(it) == first(text));
        let parameters = same.flat_map(|it| it.split(';'));
        let seconds = parameters.filter_map(|it| it.trim().strip_prefix("w=")?.parse().ok()).max();
        seconds.map(Duration::from_secs)
    };
    let least = |name: &str| texts(headers, name).filter_map(first).min();
    let longest_window = |name: &str| texts(headers, name).filter_map(window).max();
    let time = |text: &str| until(text, now).or_else(|| until(text.split([',', ';']).next()?, now));
    let limit = |names: &[&str], is_other_unit| {
        let [quota, remaining, resets @ ..] = names else { return None };
        let has = |name: &str| texts(headers, name).next().is_some();
        (has(quota) || has(remaining)).then(|| Limit {
            quota: least(quota),
            window: longest_window(if has(quota) { quota } else { remaining }),
            remaining: least(remaining),
            reset: resets.iter().find_map(|name| texts(headers, name).filter_map(time).max()),
            is_other_unit,
            burst: None,
        })
    };
    // `used/size`.
    let level = texts(headers, LEVEL).find_map(|text| {
        let (used, size) = text.split_once('/')?;
        let quota = first(size)?;
        let remaining = Some(quota.saturating_sub(first(used)?));
        Some(Limit { quota: Some(quota), remaining, ..Limit::default() })
    });
    let requests = REQUESTS.iter().filter_map(|names| limit(names, false));
    let tokens = TOKENS.iter().filter_map(|names| limit(names, true));
    requests.chain(tokens).chain(level).collect()
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

    #[test]
    fn the_readme_names_each_field() {
        let readme = include_str!("../README.md").to_lowercase();
        for name in REQUESTS.iter().chain(&TOKENS).copied().flatten().chain([&LEVEL]) {
            assert!(readme.contains(&format!("`{name}`")), "{name} is not in README.md");
        }
    }
}
