//! Stored values, decoded: how many permits they count now, and what each number means.
//!
//! [`stored`](crate::stored) decodes the forms. Here are only the words.

mod in_flight;
mod ledger;
mod windows;

use std::time::Duration;

use limiter_core::Limit;

use crate::{
    stored::{Family, Gcra, State as Stored},
    words::time,
};

pub(crate) use in_flight::Permits;
pub(crate) use ledger::span_of;

/// What a limit has stored at a key.
#[derive(Debug)]
pub(crate) struct State {
    /// The value as it is stored; of a list, its first element.
    pub(crate) text: String,
    /// The numbers in it. Empty if the value is not a state.
    pub(crate) fields: Vec<Field>,
    /// How many permits count now, or the most that may if `is_exact` is false.
    pub(crate) used: u64,
    /// Whether all entries of a list were read that have ended.
    pub(crate) is_exact: bool,
    /// The time until no permit counts.
    pub(crate) fresh_in: Duration,
    /// What is wrong with the value, and what happens next.
    pub(crate) problem: Option<String>,
    /// Of requests in flight: how many permits the set has, and how many of them have expired.
    pub(crate) in_flight: Option<(u64, u64)>,
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
    List(Elements),
    Set(Permits),
    /// Of another type, or none.
    Other,
}

/// What was read of a list.
#[derive(Debug)]
pub(crate) struct Elements {
    /// The first element.
    pub(crate) head: String,
    /// The permits of the entries that have ended.
    pub(crate) ended: u64,
    /// The oldest entry that has not ended, if that is another one than the first element.
    pub(crate) oldest: Option<String>,
    /// Whether all entries were read that have ended.
    pub(crate) is_whole: bool,
}

const NOT_A_STATE: &str = "No limiter writes this value. The next check counts it as used up, for one \
                           recovery, and replaces it. Find out which program wrote it.";

const TOO_FAR: &str = "The time in it is further ahead than its quota allows: the server's clock was \
                       set back, or another program wrote it. The next check replaces it by a full \
                       debt.";

/// Returns the state of a key of this family, as a limit counts it, at the server's time `now` in microseconds.
pub(crate) fn decode(family: Family, value: &Value, limit: Option<&Limit>, now: u64) -> State {
    let limit = limit.filter(|limit| Family::of(limit.algorithm()) == family);
    let (text, state) = match value {
        Value::List(list) => {
            let state = if family.is_list() { ledger::of(list, limit, now) } else { None };
            (list.head.as_str(), state)
        }
        Value::Text(text) => {
            let state = Stored::parse(family, text).map(|stored| match stored {
                Stored::Gcra(stored) => gcra(&stored, text, now),
                Stored::Windows(stored) => windows::of(&stored, limit, now),
            });
            (text.as_str(), state)
        }
        Value::Set(permits) => ("", in_flight::of(permits, now)),
        Value::Other => ("", None),
    };
    let state = state.unwrap_or_else(|| {
        let state = State::of(0, 0, true, Vec::new());
        State { problem: Some(NOT_A_STATE.to_owned()), ..state }
    });
    State { text: text.to_owned(), ..state }
}

impl State {
    /// Returns the state of permits in use, which are none once it is fresh.
    fn of(used: u64, fresh_in: u64, is_possible: bool, fields: Vec<Field>) -> Self {
        Self {
            text: String::new(),
            fields,
            used: if fresh_in > 0 { used } else { 0 },
            is_exact: true,
            fresh_in: Duration::from_micros(fresh_in),
            problem: (!is_possible).then(|| TOO_FAR.to_owned()),
            in_flight: None,
        }
    }

    /// Returns the number of a field, `None` if there is none or it is zero.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        let field = self.fields.iter().find(|field| field.name == name)?;
        field.value.parse().ok().filter(|number| *number > 0)
    }
}

impl Field {
    fn of(name: &'static str, value: u64, meaning: String) -> Self {
        Self { name, value: value.to_string(), meaning }
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

/// Returns the field of a word of a state.
fn field(text: &str, index: usize, name: &'static str, meaning: String) -> Field {
    let value = text.split(' ').nth(index).unwrap_or_default().to_owned();
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
    use limiter_core::Policy;

    use super::*;

    const NOW: u64 = 1_700_000_000_000_000;

    fn of(family: &str, value: &Value, limit: Option<&str>) -> State {
        let policy = limit.map(|limit| Policy::parse("api", limit).unwrap());
        let limit = policy.as_ref().map(|policy| &policy.limits()[0]);
        decode(Family::parse(family).unwrap(), value, limit, NOW)
    }

    fn one(family: &str, text: &str) -> State {
        of(family, &Value::Text(text.to_owned()), None)
    }

    fn used(family: &str, text: &str, limit: &str) -> (u64, u64) {
        let state = of(family, &Value::Text(text.to_owned()), Some(limit));
        (state.used, state.fresh_in.as_secs())
    }

    fn list(head: &str, ended: u64, oldest: Option<&str>) -> State {
        let (head, oldest) = (head.to_owned(), oldest.map(str::to_owned));
        of("sliding-log.3", &Value::List(Elements { head, ended, oldest, is_whole: true }), None)
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
        for (family, text) in [
            ("gcra", "1699999999000000 6000000 120000000"),
            ("fixed-window.2", "1699999939000000 60000000 120000000 7"),
            (
                "fixed-window.2",
                "1699999939000000 60000000 120000000 7, 1699999990000000 5000000 9000000 2",
            ),
            ("sliding-counter.2", "1699998000000000 60000000 120000000 7 3"),
        ] {
            let state = one(family, text);
            assert_eq!((state.used, state.fresh_in), (0, Duration::ZERO), "{text}");
            assert_eq!(state.problem, None, "{text}");
        }
        let state = list("1699999940000000 7 9 9 1 60000000 60000000", 0, None);
        assert_eq!((state.used, state.fresh_in, state.problem), (0, Duration::ZERO, None));
    }

    #[test]
    fn a_counter_fades_and_moves_on() {
        let state = one("sliding-counter.2", "1699999970000000 60000000 120000000 7 20");
        assert_eq!((state.used, state.fresh_in), (17, Duration::from_secs(90)));
        let state = one("sliding-counter.2", "1699999910000000 60000000 120000000 7 20");
        assert_eq!((state.used, state.fresh_in), (4, Duration::from_secs(30)));
    }

    #[test]
    fn a_window_that_has_not_begun_says_so() {
        let state = one("fixed-window.2", "1700000030000000 60000000 120000000 7");
        assert_eq!((state.used, state.fresh_in), (7, Duration::from_secs(90)));
        assert_eq!(state.fields[0].meaning, "the time at which the window begins, in 30 s");
        assert_eq!(state.fields[4].meaning, "the end of the window, in 90 s");
    }

    #[test]
    fn a_quota_decides_by_the_window_of_its_length() {
        let two = "1699999990000000 60000000 120000000 2, 1699999940000000 3600000000 7200000000 9";
        assert_eq!(used("fixed-window.2", two, "10/min by fixed-window"), (2, 50));
        assert_eq!(used("fixed-window.2", two, "99/h by fixed-window"), (9, 3_540));
        // A window that opens has the count of the fullest one that counts since a moment within its length.
        assert_eq!(used("fixed-window.2", two, "99/d by fixed-window"), (9, 3_540));
        assert_eq!(used("fixed-window.2", two, "5/30s by fixed-window"), (2, 20));
        assert_eq!(used("fixed-window.2", two, "5/s by fixed-window"), (0, 0));
        // Without a quota, the fullest.
        let state = one("fixed-window.2", two);
        assert_eq!((state.used, state.fresh_in.as_secs(), state.fields.len()), (9, 3_540, 10));
        let joined = "1699999990000000 60000000 120000000 2 1000000 1700000050000000";
        assert_eq!(used("fixed-window.2", joined, "5/s by fixed-window"), (2, 50));
        let shortest = &one("fixed-window.2", joined).fields[4];
        assert_eq!(shortest.meaning, "quotas with windows from 1 s on decide by it");
    }

    #[test]
    fn a_log_counts_all_but_the_entries_that_have_ended() {
        let head = "1699999990000000 2 500 1000 1 60000000 60000000";
        let state = list(head, 490, Some("1699999970000000 1"));
        assert_eq!((state.used, state.fresh_in), (10, Duration::from_secs(50)));
        assert_eq!((state.text.as_str(), state.problem), (head, None));
        let [.., ended, oldest] = state.fields.as_slice() else { panic!("{:?}", state.fields) };
        assert_eq!(ended.meaning, "490 permits of entries that no longer count");
        assert_eq!(oldest.meaning, "the time of the oldest entry that counts, 30 s ago");
        assert_eq!(list(head, 498, None).used, 2);
        let head = "1699999990000000 2 500 1000, 1 60000000 5 1699999980000000, 1 20000000 9 1699999990000000";
        let state = list(head, 498, None);
        assert_eq!((state.used, state.fresh_in), (2, Duration::from_secs(40)));
        let names: Vec<_> = state.fields.iter().map(|field| field.name).collect();
        assert_eq!(
            names[4..],
            ["slot", "span", "horizon", "last", "slot", "span", "horizon", "last", "ended"]
        );
        // A quota with a shorter window counts its own span.
        let value = Elements { head: head.to_owned(), ended: 498, oldest: None, is_whole: false };
        let state = of("sliding-log.3", &Value::List(value), Some("9/20s by sliding-log"));
        assert_eq!((state.used, state.is_exact, state.fresh_in.as_secs()), (2, false, 10));
    }

    #[test]
    fn no_value_panics_and_no_foreign_one_is_a_state() {
        let digits = "9".repeat(40);
        for text in
            ["", " ", "-", "-1 1 1", "1.5 1 1", "1 2", "a b c", "1 1 1 1 1 1", "1,2,3", &digits]
        {
            for family in ["gcra", "fixed-window.2", "sliding-counter.2", "sliding-log.3"] {
                let state = one(family, text);
                assert!(state.problem.is_some(), "{family} {text}");
            }
            assert!(list(text, 7, Some(text)).problem.is_some(), "{text}");
        }
        assert!(of("gcra", &Value::Other, None).problem.is_some());
        let far = one("gcra", "1700000200000000 6000000 120000000");
        assert!(far.problem.unwrap().contains("further ahead"));
    }
}
