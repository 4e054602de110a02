//! Stored values, decoded: how many permits they count now, and what each number means.
//!
//! The scripts of `limiter-redis` define the forms. Here they are only read.

mod ledger;
mod numbers;

use std::time::Duration;

use self::numbers::Reader;
use crate::words::{permits, time};

/// What one limit of a policy has stored at a key.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) family: String,
    /// The value as it is stored.
    pub(crate) text: String,
    /// The numbers in it. Empty if the value is not a state.
    pub(crate) fields: Vec<Field>,
    /// How many permits count now.
    pub(crate) used: u64,
    /// Whether fewer may count, because not all entries of a long log were read.
    pub(crate) is_upper_bound: bool,
    /// The time until no permit counts.
    pub(crate) fresh_in: Duration,
    /// What is wrong with the value, and what happens next.
    pub(crate) problem: Option<String>,
}

/// A number of a state.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) meaning: String,
}

/// A value as it was read from a server.
#[derive(Debug)]
pub(crate) enum Value {
    Text(String),
    /// The first elements of a list.
    List(Vec<String>),
}

const NOT_A_STATE: &str = "No limiter writes this value. The next check counts it as used up, for one \
                           recovery, and replaces it. Find out which program wrote it.";

const TOO_FAR: &str = "The time in it is further ahead than its quota allows: the server's clock was \
                       set back, or another program wrote it. The next check replaces it by a full \
                       debt.";

/// Returns the states of a key whose algorithms are `families`, joined by `+`, at the server's time `now`
/// in microseconds.
pub(crate) fn decode(families: &str, value: &Value, now: u64) -> Vec<State> {
    let texts: Vec<&str> = match value {
        Value::List(elements) => return vec![ledger::of_list(families, elements, now)],
        Value::Text(text) if families.contains('+') => text.split(", ").collect(),
        Value::Text(text) => vec![text],
    };
    let families = families.split('+').enumerate();
    families
        .map(|(index, family)| {
            let text = texts.get(index).copied().unwrap_or_default();
            let decoded = match family {
                _ if text == "-" => Some(State::fresh()),
                "gcra" => gcra(text, now),
                "fixed-window" | "aligned-window" => window(text, now),
                "sliding-counter" => counter(text, now),
                "sliding-log" | "sub-windows" => ledger::of_text(text, now),
                _ => None,
            };
            let state = decoded.unwrap_or_else(State::unreadable);
            State { family: family.to_owned(), text: text.to_owned(), ..state }
        })
        .collect()
}

impl State {
    fn fresh() -> Self {
        Self {
            family: String::new(),
            text: String::new(),
            fields: Vec::new(),
            used: 0,
            is_upper_bound: false,
            fresh_in: Duration::ZERO,
            problem: None,
        }
    }

    fn unreadable() -> Self {
        Self { problem: Some(NOT_A_STATE.to_owned()), ..Self::fresh() }
    }

    /// Returns the state of permits in use, which are none once it is fresh.
    fn of(used: u64, fresh_in: u64, is_possible: bool, fields: Vec<Field>) -> Self {
        Self {
            used: if fresh_in > 0 { used } else { 0 },
            fresh_in: Duration::from_micros(fresh_in),
            problem: (!is_possible).then(|| TOO_FAR.to_owned()),
            fields,
            ..Self::fresh()
        }
    }
}

/// `TAT increment reach`.
fn gcra(text: &str, now: u64) -> Option<State> {
    let mut reader = Reader::new(text);
    // In ten-thousandths of a microsecond.
    let (tat, increment, reach) = (reader.ticks()?, reader.ticks()?, reader.ticks()?);
    if !reader.is_at_end() || increment == 0 || increment > reach {
        return None;
    }
    let micros = |ticks: u128| u64::try_from(ticks.div_ceil(10_000)).unwrap_or(u64::MAX);
    let debt = tat.saturating_sub(u128::from(now) * 10_000);
    let used = u64::try_from(debt.div_ceil(increment)).unwrap_or(u64::MAX);
    let fields = vec![
        reader.field(0, "TAT", when("the time at which the debt is paid off", micros(tat), now)),
        reader.field(
            1,
            "increment",
            format!("each permit adds {} of debt", micros_of(micros(increment))),
        ),
        reader.field(
            2,
            "reach",
            format!("the largest debt that the quota can leave: {}", micros_of(micros(reach))),
        ),
    ];
    Some(State::of(used, micros(debt), debt <= reach, fields))
}

/// `end window reach count`.
fn window(text: &str, now: u64) -> Option<State> {
    let mut reader = Reader::new(text);
    let (end, window, reach) = (reader.whole()?, reader.whole()?, reader.whole()?);
    let count = reader.whole()?;
    if !reader.is_at_end() || window == 0 || window > reach {
        return None;
    }
    let begin = end.saturating_sub(window);
    let what = if begin > now {
        "the end of a window that has not begun"
    } else {
        "the end of the window"
    };
    let fields = vec![
        reader.field(0, "end", when(what, end, now)),
        reader.field(1, "window", format!("a window takes {}", micros_of(window))),
        reader.field(2, "reach", format!("the end is at most {} ahead", micros_of(reach))),
        reader.field(3, "count", format!("{} taken in the window", permits(count))),
    ];
    let fresh_at = if count > 0 { end } else { begin };
    let ahead = end.saturating_sub(now);
    Some(State::of(count, fresh_at.saturating_sub(now), ahead <= reach, fields))
}

/// `end window reach current previous`.
fn counter(text: &str, now: u64) -> Option<State> {
    let mut reader = Reader::new(text);
    let (end, window, reach) = (reader.whole()?, reader.whole()?, reader.whole()?);
    let (current, previous) = (reader.whole()?, reader.whole()?);
    if !reader.is_at_end() || window == 0 || window > reach {
        return None;
    }
    let fields = vec![
        reader.field(0, "end", when("the end of the current window", end, now)),
        reader.field(1, "window", format!("a window takes {}", micros_of(window))),
        reader.field(2, "reach", format!("the end is at most {} ahead", micros_of(reach))),
        reader.field(3, "current", format!("{} taken in the current window", permits(current))),
        reader.field(4, "previous", format!("{} taken in the window before", permits(previous))),
    ];
    let is_possible = end.saturating_sub(now) <= reach;
    // Once the current window is over, it is the previous one of a window without permits.
    let (end, current, previous) = if end <= now {
        (end.saturating_add(window), 0, current)
    } else {
        (end, current, previous)
    };
    let left = u128::from(end.saturating_sub(now).min(window));
    let faded = (u128::from(previous) * left).div_ceil(u128::from(window));
    let used = current.saturating_add(u64::try_from(faded).unwrap_or(u64::MAX));
    let fresh_at = match (current, previous) {
        (0, 0) => end.saturating_sub(window),
        (0, _) => end,
        _ => end.saturating_add(window),
    };
    Some(State::of(used, fresh_at.saturating_sub(now), is_possible, fields))
}

/// Returns what a time is, and how far from now it is.
fn when(what: &str, at: u64, now: u64) -> String {
    if at > now {
        format!("{what}, in {}", micros_of(at - now))
    } else {
        format!("{what}, {} ago", micros_of(now - at))
    }
}

fn micros_of(micros: u64) -> String {
    time(Duration::from_micros(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000_000_000;

    fn one(families: &str, text: &str) -> State {
        decode(families, &Value::Text(text.to_owned()), NOW).remove(0)
    }

    #[test]
    fn decimals_count_and_the_rest_of_a_permit_counts_as_one() {
        let state = one("gcra", "1700000000001000.5000 333.3334 2000000.0000");
        assert_eq!((state.used, state.fresh_in), (4, Duration::from_micros(1_001)));
        assert_eq!(state.fields[1].meaning, "each permit adds 334 us of debt");
    }

    #[test]
    fn states_that_are_over_count_nothing() {
        for (families, text) in [
            ("gcra", "1699999999000000 6000000 120000000"),
            ("fixed-window", "1699999999000000 60000000 120000000 7"),
            ("sliding-counter", "1699999000000000 60000000 120000000 7 3"),
            ("gcra+gcra", "-, -"),
        ] {
            let state = one(families, text);
            assert_eq!((state.used, state.fresh_in), (0, Duration::ZERO), "{text}");
            assert_eq!(state.problem, None, "{text}");
        }
    }

    #[test]
    fn a_counter_fades_and_moves_on() {
        let state = one("sliding-counter", "1700000030000000 60000000 120000000 7 20");
        assert_eq!((state.used, state.fresh_in), (17, Duration::from_secs(90)));
        let state = one("sliding-counter", "1699999970000000 60000000 120000000 7 20");
        assert_eq!((state.used, state.fresh_in), (4, Duration::from_secs(30)));
    }

    #[test]
    fn a_window_that_has_not_begun_says_so() {
        let state = one("fixed-window", "1700000090000000 60000000 120000000 7");
        assert_eq!((state.used, state.fresh_in), (7, Duration::from_secs(90)));
        let meaning = "the end of a window that has not begun, in 90 s";
        assert_eq!(state.fields[0].meaning, meaning);
    }

    #[test]
    fn no_value_panics_and_no_foreign_one_is_a_state() {
        let digits = "9".repeat(40);
        for text in ["", " ", "-1 1 1", "1.5 1 1", "1 2", "a b c", "1 1 1 1 1 1", "1,2,3", &digits]
        {
            for families in
                ["gcra", "fixed-window", "sliding-counter", "sliding-log", "gcra+gcra", "new", ""]
            {
                let state = one(families, text);
                assert!(state.problem.is_some(), "{families} {text}");
            }
            let list = Value::List(vec![text.to_owned(), text.to_owned()]);
            assert!(decode("sliding-log", &list, NOW)[0].problem.is_some(), "{text}");
        }
        let far = one("gcra", "1700000200000000 6000000 120000000");
        assert!(far.problem.unwrap().contains("further ahead"));
    }
}
