//! Stored values, decoded: how many permits they count now, and what each number means.
//!
//! `limiter_redis::state` decodes the forms. Here are only the words.

mod ledger;

use std::{iter::repeat, time::Duration};

use limiter_redis::state::{Family, Gcra, Log, State as Stored, Window};

use crate::words::{permits, time};

/// What one limit of a policy has stored at a key.
#[derive(Debug)]
pub(crate) struct State {
    /// The name of its family, without a version.
    pub(crate) family: &'static str,
    /// The value as it is stored; of a list, its first element.
    pub(crate) text: String,
    /// The numbers in it. Empty if the value is not a state.
    pub(crate) fields: Vec<Field>,
    /// How many permits count now.
    pub(crate) used: u64,
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
    /// Of a list the first element, and the oldest entry that counts, if that is another one.
    List(Vec<String>),
}

const NOT_A_STATE: &str = "No limiter writes this value. The next check counts it as used up, for one \
                           recovery, and replaces it. Find out which program wrote it.";

const TOO_FAR: &str = "The time in it is further ahead than its quota allows: the server's clock was \
                       set back, or another program wrote it. The next check replaces it by a full \
                       debt.";

/// Returns the states of a key of these families, at the server's time `now` in microseconds.
pub(crate) fn decode(families: &[Family], value: &Value, now: u64) -> Vec<State> {
    match (value, families) {
        (Value::List(elements), [family]) => {
            let text = elements.first().map_or("", String::as_str);
            let log = Log::parse(elements.iter().map(String::as_str)).map(Stored::Log);
            vec![State::decoded(*family, text, log, now)]
        }
        (Value::Text(text), [family]) => {
            vec![State::decoded(*family, text, Stored::parse(*family, text), now)]
        }
        (Value::Text(text), families) => {
            let stored = Stored::parse_several(families, text);
            let stored = stored.unwrap_or_else(|| vec![None; families.len()]);
            let states = families.iter().zip(text.split(", ").chain(repeat(""))).zip(stored);
            states
                .map(|((family, text), stored)| State::decoded(*family, text, stored, now))
                .collect()
        }
        (Value::List(_), families) => {
            families.iter().map(|family| State::decoded(*family, "", None, now)).collect()
        }
    }
}

impl State {
    fn decoded(family: Family, text: &str, stored: Option<Stored>, now: u64) -> Self {
        let state = match stored {
            None => Self { problem: Some(NOT_A_STATE.to_owned()), ..Self::fresh() },
            Some(Stored::Fresh) => Self::fresh(),
            Some(Stored::Gcra(stored)) => gcra(&stored, text, now),
            Some(Stored::Window(stored)) => match stored.previous {
                None => window(&stored, text, now),
                Some(previous) => counter(&stored, previous, text, now),
            },
            Some(Stored::Log(stored)) => ledger::of(&stored, text, now),
        };
        Self { family: family.name(), text: text.to_owned(), ..state }
    }

    const fn fresh() -> Self {
        Self {
            family: "",
            text: String::new(),
            fields: Vec::new(),
            used: 0,
            fresh_in: Duration::ZERO,
            problem: None,
        }
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

fn gcra(state: &Gcra, text: &str, now: u64) -> State {
    let Gcra { tat, increment, reach, scale } = *state;
    let scale = u128::from(scale);
    let micros = |ticks: u128| u64::try_from(ticks.div_ceil(scale)).unwrap_or(u64::MAX);
    let in_words = |ticks: u64| micros_of(micros(ticks.into()));
    let debt = tat.saturating_sub(u128::from(now) * scale);
    let used = u64::try_from(debt.div_ceil(increment.into())).unwrap_or(u64::MAX);
    let paid_off =
        when("the time at which the debt, with permits in leases, is paid off", micros(tat), now);
    let largest = format!("the largest debt that the quota can leave: {}", in_words(reach));
    let fields = vec![
        field(text, 0, "TAT", paid_off),
        field(text, 1, "increment", format!("each permit adds {} of debt", in_words(increment))),
        field(text, 2, "reach", largest),
    ];
    State::of(used, micros(debt), debt <= reach.into(), fields)
}

fn window(state: &Window, text: &str, now: u64) -> State {
    let Window { end, length, reach, count, .. } = *state;
    let begin = end.saturating_sub(length);
    let what = if begin > now {
        "the end of a window that has not begun"
    } else {
        "the end of the window"
    };
    let fields = vec![
        field(text, 0, "end", when(what, end, now)),
        field(text, 1, "window", format!("a window takes {}", micros_of(length))),
        field(text, 2, "reach", format!("the end is at most {} ahead", micros_of(reach))),
        field(
            text,
            3,
            "count",
            format!("{} taken in the window, or held in leases", permits(count)),
        ),
    ];
    let fresh_at = if count > 0 { end } else { begin };
    State::of(count, fresh_at.saturating_sub(now), end.saturating_sub(now) <= reach, fields)
}

fn counter(state: &Window, previous: u64, text: &str, now: u64) -> State {
    let Window { end, length, reach, count, .. } = *state;
    let fields = vec![
        field(text, 0, "end", when("the end of the current window", end, now)),
        field(text, 1, "window", format!("a window takes {}", micros_of(length))),
        field(text, 2, "reach", format!("the end is at most {} ahead", micros_of(reach))),
        field(
            text,
            3,
            "current",
            format!("{} taken in the current window, or held in leases", permits(count)),
        ),
        field(text, 4, "previous", format!("{} taken in the window before", permits(previous))),
    ];
    let is_possible = end.saturating_sub(now) <= reach;
    // Once the current window is over, it is the previous one of a window without permits.
    let (end, current, previous) =
        if end <= now { (end.saturating_add(length), 0, count) } else { (end, count, previous) };
    let left = u128::from(end.saturating_sub(now).min(length));
    let faded = (u128::from(previous) * left).div_ceil(u128::from(length));
    let used = current.saturating_add(u64::try_from(faded).unwrap_or(u64::MAX));
    let fresh_at = match (current, previous) {
        (0, 0) => end.saturating_sub(length),
        (0, _) => end,
        _ => end.saturating_add(length),
    };
    State::of(used, fresh_at.saturating_sub(now), is_possible, fields)
}

/// Returns the field of a word of a state.
fn field(text: &str, index: usize, name: &'static str, meaning: String) -> Field {
    let head = text.split(';').next().unwrap_or_default();
    let value = head.split(' ').nth(index).unwrap_or_default().to_owned();
    Field { name, value, meaning }
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

    fn all(families: &str, value: &Value) -> Vec<State> {
        let families: Vec<_> =
            families.split('+').map(|family| Family::parse(family).unwrap()).collect();
        decode(&families, value, NOW)
    }

    fn one(families: &str, text: &str) -> State {
        all(families, &Value::Text(text.to_owned())).remove(0)
    }

    fn list(elements: &[&str]) -> State {
        let elements = elements.iter().map(|&element| element.to_owned()).collect();
        all("sliding-log.2", &Value::List(elements)).remove(0)
    }

    #[test]
    fn decimals_count_and_the_rest_of_a_permit_counts_as_one() {
        let state = one("gcra", "1700000000001000.5000 333.3334 2000000.0000");
        assert_eq!((state.used, state.fresh_in), (4, Duration::from_micros(1_001)));
        assert_eq!(state.fields[0].value, "1700000000001000.5000");
        assert_eq!(state.fields[1].meaning, "each permit adds 334 us of debt");
    }

    #[test]
    fn states_that_are_over_count_nothing() {
        for (families, text) in [
            ("gcra", "1699999999000000 6000000 120000000"),
            ("fixed-window", "1699999999000000 60000000 120000000 7"),
            ("sliding-counter", "1699999000000000 60000000 120000000 7 3"),
            ("gcra+gcra", "-, -"),
            ("sliding-log.2+gcra", "1699999940000000 7 9 1 60000000 60000000, -"),
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
    fn a_log_counts_from_its_oldest_entry_that_counts() {
        let head = "1699999990000000 2 500 1 60000000 60000000";
        let state = list(&[head, "1699999970000000 1 491"]);
        assert_eq!((state.used, state.fresh_in), (10, Duration::from_secs(50)));
        assert_eq!((state.text.as_str(), state.problem), (head, None));
        let oldest = state.fields.last().unwrap();
        assert_eq!(oldest.meaning, "the time of the oldest entry that counts, 30 s ago");
        assert_eq!(list(&[head]).used, 2);
        let in_text = format!("-, {head};1699999930000000 490 490;1699999970000000 1 491");
        let states = all("gcra+sliding-log.2", &Value::Text(in_text));
        assert_eq!((states[0].used, states[1].used), (0, 10));
        assert_eq!(states[1].fields[5].value, "60000000");
    }

    #[test]
    fn no_value_panics_and_no_foreign_one_is_a_state() {
        let digits = "9".repeat(40);
        for text in ["", " ", "-1 1 1", "1.5 1 1", "1 2", "a b c", "1 1 1 1 1 1", "1,2,3", &digits]
        {
            for families in
                ["gcra", "fixed-window", "sliding-counter", "sliding-log.2", "gcra+gcra"]
            {
                let state = one(families, text);
                assert!(state.problem.is_some(), "{families} {text}");
            }
            assert!(list(&[text, text]).problem.is_some(), "{text}");
        }
        assert!(list(&[]).problem.is_some());
        // More or fewer states than limits.
        for text in ["-", "-, -, -"] {
            let states = all("gcra+gcra", &Value::Text(text.to_owned()));
            assert!(states.len() == 2 && states.iter().all(|state| state.problem.is_some()));
        }
        let far = one("gcra", "1700000200000000 6000000 120000000");
        assert!(far.problem.unwrap().contains("further ahead"));
    }
}
