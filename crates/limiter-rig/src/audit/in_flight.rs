//! Requests that were in flight at once, held against the limits of their keys.

use std::collections::BTreeMap;

/// A time in which a request was in flight: from `begun` until before `ended`, in microseconds of Unix time.
///
/// A request that is in flight for long may have several spans, of which each begins where the last one ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The number of its key.
    pub key: u64,
    /// The first moment at which it is known to have been in flight.
    pub begun: u64,
    /// The last moment at which it is known to have been in flight.
    pub ended: u64,
}

/// How many requests were in flight at once at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Most {
    /// Of each key: how many, and the first moment at which they were.
    pub of_keys: BTreeMap<u64, (u64, u64)>,
    /// Of all keys together.
    pub of_all: u64,
}

/// Returns how many requests were in flight at once at most, of each key and together.
#[must_use]
pub fn most_at_once(spans: &[Span]) -> Most {
    let lasting = || spans.iter().filter(|span| span.begun < span.ended);
    let ends = lasting().map(|span| (span.ended, false, span.key));
    let begins = lasting().map(|span| (span.begun, true, span.key));
    let mut events: Vec<_> = ends.chain(begins).collect();
    // At one moment, spans end before others begin.
    events.sort_unstable();
    let (mut now, mut all, mut most) = (BTreeMap::<u64, u64>::new(), 0_u64, Most::default());
    for (at, begins, key) in events {
        let now = now.entry(key).or_default();
        if !begins {
            (*now, all) = (now.saturating_sub(1), all.saturating_sub(1));
            continue;
        }
        (*now, all) = (*now + 1, all + 1);
        most.of_all = most.of_all.max(all);
        let of_key = most.of_keys.entry(key).or_default();
        if *now > of_key.0 {
            *of_key = (*now, at);
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_a_key_that_overlap_are_counted() {
        let span = |key, begun, ended| Span { key, begun, ended };
        // The second span goes on where the first one ended, and the third begins where that ends.
        let spans = [span(1, 0, 10), span(1, 10, 20), span(1, 20, 30), span(2, 5, 25)];
        let most = most_at_once(&spans);
        assert_eq!((most.of_keys, most.of_all), (BTreeMap::from([(1, (1, 0)), (2, (1, 5))]), 2));
        let most = most_at_once(&[&spans[..], &[span(1, 19, 21), span(1, 20, 22)]].concat());
        assert_eq!((most.of_keys[&1], most.of_keys[&2], most.of_all), ((3, 20), (1, 5), 4));
    }
}
