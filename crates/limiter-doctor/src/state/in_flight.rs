//! Permits of requests in flight, in words.

use super::{Field, State, micros_of};

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

/// The longest that a permit lasts: what a request finds further ahead is an error, if its limit is reached.
const LONGEST: u64 = 86_400_000_000;

const NOT_A_PERMIT: &str = "A member of the set is not a permit, because its deadline is more than a day ahead: the \
                            server's clock was set back, or another program wrote it. It counts for ever, and when \
                            the limit is reached, requests fail. Reset the subject.";

/// Returns the state of a set at the server's time `now`, or `None` if no limiter writes such a set.
pub(super) fn of(permits: &Permits, now: u64) -> Option<State> {
    let deadline = |text: &str| text.parse::<u64>().ok();
    let latest = deadline(&permits.latest)?;
    let fields = permits.first.iter().map(|(id, at)| {
        let at = deadline(at)?;
        let meaning = if at > now {
            format!("permit {id}, which expires in {} unless it is renewed", micros_of(at - now))
        } else {
            format!("permit {id}, which expired {} ago", micros_of(now - at))
        };
        Some(Field::of("deadline", at, meaning))
    });
    let fields = fields.collect::<Option<Vec<_>>>()?;
    let (held, lasts) = (permits.all.saturating_sub(permits.expired), latest.saturating_sub(now));
    let state = State::of(held, lasts, true, fields);
    let problem = (lasts > LONGEST).then(|| NOT_A_PERMIT.to_owned());
    Some(State { problem, in_flight: Some((permits.all, permits.expired)), ..state })
}

impl State {
    /// Returns what a set of permits means, if this is one.
    pub(crate) fn words_of_in_flight(&self) -> Option<String> {
        let (all, expired) = self.in_flight?;
        let number = |number: u64, one: &str| {
            format!("{number} {one}{}", if number == 1 { "" } else { "s" })
        };
        let mut out = number(all - expired, "request");
        out += " in flight. The limit is not stored.\n";
        if expired > 0 {
            out += &format!(
                "{} expired, and count{} until the limit is reached.\n",
                number(expired, "permit"),
                if expired == 1 { "s" } else { "" }
            );
        }
        let listed = self.fields.len() as u64;
        if listed < all {
            out += &format!("The {listed} that expire first of {all}:\n");
        }
        Some(out)
    }
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
        let state = of(&permits(3, 1, &[NOW, NOW + 1_000_000, NOW + 26_000_000]), NOW).unwrap();
        assert_eq!((state.used, state.fresh_in.as_secs(), &state.problem), (2, 26, &None));
        let meanings: Vec<_> = state.fields.iter().map(|field| field.meaning.as_str()).collect();
        assert_eq!(
            meanings,
            [
                "permit id0, which expired 0 us ago",
                "permit id1, which expires in 1 s unless it is renewed",
                "permit id2, which expires in 26 s unless it is renewed",
            ]
        );
        let words = "2 requests in flight. The limit is not stored.\n\
                     1 permit expired, and counts until the limit is reached.\n";
        assert_eq!(state.words_of_in_flight().unwrap(), words);
        let state = of(&permits(30, 0, &[NOW + 1]), NOW).unwrap();
        let words = state.words_of_in_flight().unwrap();
        assert!(words.ends_with("The 1 that expire first of 30:\n"), "{words}");
    }

    #[test]
    fn permits_that_have_all_expired_are_not_in_use() {
        let state = of(&permits(2, 2, &[NOW - 9, NOW - 5]), NOW).unwrap();
        assert_eq!((state.used, state.fresh_in.as_micros(), state.problem), (0, 0, None));
    }

    #[test]
    fn members_that_are_no_permits_are_a_problem() {
        let state = of(&permits(1, 0, &[NOW + LONGEST + 1]), NOW).unwrap();
        assert_eq!(state.problem.as_deref(), Some(NOT_A_PERMIT));
        assert_eq!(of(&permits(1, 0, &[NOW + LONGEST]), NOW).unwrap().problem, None);
        let foreign = Permits { latest: "1.5".to_owned(), ..permits(1, 0, &[NOW]) };
        assert!(of(&foreign, NOW).is_none());
    }
}
