//! What every limiter answers, row by row.

use std::time::Duration;

use limiter_core::{Cost, Decision, Policy, Quota, Timestamp, Usage};

use crate::subject::Subject;

/// A quota, and what is asked of it in turn.
struct Case {
    name: &'static str,
    /// Permits, window in milliseconds, burst.
    quota: (u64, u64, u64),
    rows: &'static [Row],
}

/// One request and the whole answer. Times are in milliseconds.
struct Row {
    at: u64,
    key: &'static str,
    cost: u64,
    want: Want,
}

enum Want {
    Admitted { remaining: u64, reset: u64 },
    Refused { remaining: u64, retry: Option<u64>, reset: u64 },
}

const fn yes(at: u64, cost: u64, remaining: u64, reset: u64) -> Row {
    Row { at, key: "a", cost, want: Want::Admitted { remaining, reset } }
}

const fn no(at: u64, cost: u64, remaining: u64, retry: u64, reset: u64) -> Row {
    Row { at, key: "a", cost, want: Want::Refused { remaining, retry: Some(retry), reset } }
}

const fn never(at: u64, cost: u64, remaining: u64, reset: u64) -> Row {
    Row { at, key: "a", cost, want: Want::Refused { remaining, retry: None, reset } }
}

const fn of(key: &'static str, row: Row) -> Row {
    Row { key, ..row }
}

/// Runs every case of GCRA on a limiter that `make` makes for its quota.
///
/// # Panics
///
/// At the first row whose answer differs.
pub fn gcra<S: Subject>(mut make: impl FnMut(Policy) -> S) {
    for case in GCRA {
        let (permits, window, burst) = case.quota;
        let quota = Quota::per(permits, Duration::from_millis(window))
            .and_then(|quota| quota.with_burst(burst))
            .expect("the cases' quotas are valid");
        let policy = Policy::gcra("test", quota).expect("the cases' quotas can be held");
        let mut subject = make(policy);
        for (index, row) in case.rows.iter().enumerate() {
            let at = Timestamp::from_nanos(row.at * 1_000_000);
            let cost = Cost::new(row.cost).expect("rows cost something");
            let answer = subject.decide(at, row.key, cost);
            assert_eq!(answer, row.answer(quota), "{}, row {index}", case.name);
        }
    }
}

impl Row {
    fn answer(&self, quota: Quota) -> Decision {
        let ms = Duration::from_millis;
        match self.want {
            Want::Admitted { remaining, reset } => {
                Decision::admitted(Usage::new(quota.burst(), remaining, ms(reset)))
            }
            Want::Refused { remaining, retry, reset } => {
                Decision::refused(Usage::new(quota.burst(), remaining, ms(reset)), retry.map(ms))
            }
        }
    }
}

const GCRA: &[Case] = &[
    Case {
        name: "the_burst_is_admitted_and_no_more",
        quota: (3, 3_000, 3),
        rows: &[
            yes(0, 1, 2, 1_000),
            yes(0, 1, 1, 2_000),
            yes(0, 1, 0, 3_000),
            no(0, 1, 0, 1_000, 3_000),
        ],
    },
    Case {
        name: "permits_return_one_at_a_time",
        quota: (2, 1_000, 2),
        rows: &[
            yes(0, 2, 0, 1_000),
            no(499, 1, 0, 1, 501),
            yes(500, 1, 0, 1_000),
            no(999, 1, 0, 1, 501),
            yes(1_000, 1, 0, 1_000),
        ],
    },
    Case {
        name: "refusal_does_not_charge",
        quota: (1, 1_000, 1),
        rows: &[
            yes(0, 1, 0, 1_000),
            no(100, 1, 0, 900, 900),
            no(200, 1, 0, 800, 800),
            no(999, 1, 0, 1, 1),
            yes(1_000, 1, 0, 1_000),
        ],
    },
    Case {
        name: "a_cost_takes_all_its_permits_or_none",
        quota: (10, 10_000, 10),
        rows: &[
            yes(0, 7, 3, 7_000),
            no(0, 4, 3, 1_000, 7_000),
            yes(0, 3, 0, 10_000),
            no(4_000, 5, 4, 1_000, 6_000),
            yes(5_000, 5, 0, 10_000),
        ],
    },
    Case {
        name: "a_cost_above_the_burst_has_no_retry",
        quota: (5, 5_000, 5),
        rows: &[
            never(0, 6, 5, 0),
            yes(0, 5, 0, 5_000),
            never(1_000, u64::MAX, 1, 4_000),
            yes(1_000, 1, 0, 5_000),
        ],
    },
    Case {
        name: "keys_do_not_share_permits",
        quota: (1, 60_000, 1),
        rows: &[
            yes(0, 1, 0, 60_000),
            of("b", yes(0, 1, 0, 60_000)),
            of("", yes(0, 1, 0, 60_000)),
            no(1, 1, 0, 59_999, 59_999),
            of("b", no(1, 1, 0, 59_999, 59_999)),
            of("A", yes(1, 1, 0, 60_000)),
        ],
    },
    Case {
        name: "an_idle_key_saves_up_no_more_than_the_burst",
        quota: (1, 10, 3),
        rows: &[yes(0, 1, 2, 10), yes(86_400_000, 3, 0, 30), no(86_400_000, 1, 0, 10, 30)],
    },
    Case {
        name: "the_bound_is_reached_in_a_trailing_window",
        // Burst 2 and 4 a second: 6 within the second that starts at 0, the published most.
        quota: (4, 1_000, 2),
        rows: &[
            yes(0, 2, 0, 500),
            yes(250, 1, 0, 500),
            yes(500, 1, 0, 500),
            yes(750, 1, 0, 500),
            yes(1_000, 1, 0, 500),
            no(1_000, 1, 0, 250, 500),
        ],
    },
    Case {
        name: "a_burst_of_one_spaces_requests_evenly",
        quota: (100, 1_000, 1),
        rows: &[yes(0, 1, 0, 10), no(9, 1, 0, 1, 1), yes(10, 1, 0, 10), no(15, 1, 0, 5, 5)],
    },
    Case {
        name: "a_clock_that_steps_back_costs_at_most_one_recovery",
        quota: (2, 2_000, 2),
        rows: &[
            yes(3_600_000, 2, 0, 2_000),
            // An hour back: the debt is what it can be at most, not an hour.
            no(1_000, 1, 0, 1_000, 2_000),
            no(1_999, 1, 0, 1, 1_001),
            yes(2_000, 1, 0, 2_000),
        ],
    },
];
