//! Permits of requests in flight.

use std::time::Duration;

use super::{in_words, number};
use crate::words::text;

/// What was read of a sorted set of permits. All times are microseconds of Unix time.
#[derive(Debug)]
pub(crate) struct Permits {
    /// How many permits the set has.
    pub(crate) all: u64,
    /// How many of them have expired.
    pub(crate) expired: u64,
    /// The latest deadline.
    pub(crate) latest: String,
    /// Those that expire first, with their deadlines.
    pub(crate) first: Vec<(String, String)>,
}

/// What a set means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InFlight {
    /// The permits that have not expired.
    pub(crate) held: u64,
    /// The time until the last one expires, unless it is renewed.
    pub(crate) expires_in: Duration,
    /// In words.
    pub(crate) lines: Vec<String>,
    /// What is wrong with the set, and what happens next.
    pub(crate) problem: Option<&'static str>,
}

/// The longest that a permit lasts: a request that finds one further ahead fails, if the limit is reached.
const LONGEST: u64 = 86_400_000_000;

const TOO_FAR: &str = "A member of the set is not a permit, because its deadline is more than a day ahead: the server's \
                       clock was set back, or another program wrote it. It counts for ever, and when the limit is \
                       reached, requests fail. Reset the subject.";

const NOT_PERMITS: &str = "A member of the set is not a permit, because its score is not a time in microseconds. It \
                           counts as a request in flight until the limit is reached, and if the score is later than \
                           now, for as long; from a day ahead on requests then fail. Find out which program wrote it, \
                           then reset the subject.";

impl InFlight {
    /// Returns what a set means at the server's time `now`.
    pub(crate) fn of(permits: &Permits, now: u64) -> Self {
        let deadlines: Option<Vec<_>> =
            permits.first.iter().map(|(id, at)| Some((text(id.as_bytes()), number(at)?))).collect();
        let (Some(deadlines), Some(latest)) = (deadlines, number(&permits.latest)) else {
            let lines = vec![count(permits.all, "member")];
            let (held, expires_in) = (0, Duration::ZERO);
            return Self { held, expires_in, lines, problem: Some(NOT_PERMITS) };
        };
        let (held, lasts) =
            (permits.all.saturating_sub(permits.expired), latest.saturating_sub(now));
        let mut lines =
            vec![format!("{} in flight. The limit is not stored.", count(held, "request"))];
        if permits.expired > 0 {
            let s = if permits.expired == 1 { "s" } else { "" };
            let expired = count(permits.expired, "permit");
            lines.push(format!("{expired} expired, and count{s} until the limit is reached."));
        }
        let listed = deadlines.len() as u64;
        if listed < permits.all {
            lines.push(format!("The {listed} that expire first of {}:", permits.all));
        }
        lines.extend(deadlines.iter().map(|(id, at)| match at.checked_sub(now) {
            Some(left) if left > 0 => {
                format!("permit {id} expires in {} unless it is renewed", in_words(left))
            }
            _ => format!("permit {id} expired {} ago", in_words(now - at)),
        }));
        let problem = (lasts > LONGEST).then_some(TOO_FAR);
        Self { held, expires_in: Duration::from_micros(lasts), lines, problem }
    }
}

fn count(number: u64, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000_000_000;

    fn permits(all: u64, expired: u64, deadlines: &[u64]) -> Permits {
        let first = deadlines.iter().enumerate();
        let first = first.map(|(number, at)| (format!("id{number}"), at.to_string())).collect();
        let latest = deadlines.last().unwrap().to_string();
        Permits { all, expired, latest, first }
    }

    #[test]
    fn permits_are_counted_until_they_expire() {
        let set = InFlight::of(&permits(3, 1, &[NOW, NOW + 1_000_000, NOW + 26_000_000]), NOW);
        assert_eq!((set.held, set.expires_in.as_secs(), set.problem), (2, 26, None));
        assert_eq!(
            set.lines,
            [
                "2 requests in flight. The limit is not stored.",
                "1 permit expired, and counts until the limit is reached.",
                "permit id0 expired 0 us ago",
                "permit id1 expires in 1 s unless it is renewed",
                "permit id2 expires in 26 s unless it is renewed",
            ]
        );
        let set = InFlight::of(&permits(30, 0, &[NOW + 1]), NOW);
        assert_eq!(set.lines[1], "The 1 that expire first of 30:");
    }

    #[test]
    fn permits_that_have_all_expired_are_not_in_use() {
        let set = InFlight::of(&permits(2, 2, &[NOW - 9, NOW - 5]), NOW);
        assert_eq!((set.held, set.expires_in.as_micros(), set.problem), (0, 0, None));
    }

    #[test]
    fn members_that_are_no_permits_are_a_problem_of_requests_in_flight() {
        let set = InFlight::of(&permits(1, 0, &[NOW + LONGEST + 1]), NOW);
        assert_eq!(set.problem, Some(TOO_FAR));
        assert_eq!(InFlight::of(&permits(1, 0, &[NOW + LONGEST]), NOW).problem, None);
        let foreign = Permits { latest: "1.5".to_owned(), ..permits(1, 0, &[NOW]) };
        let set = InFlight::of(&foreign, NOW);
        // Not in the words of rates: no check replaces a set.
        assert_eq!(
            (set.problem, set.lines.as_slice()),
            (Some(NOT_PERMITS), &["1 member".to_owned()][..])
        );
    }
}
