//! GCRA, and so the buckets that are GCRA by other names.

use super::{Case, gcra_of, never, no, of, yes};

pub(super) const ROWS: &[Case] = &[
    Case {
        name: "the_burst_is_admitted_and_no_more",
        policy: || gcra_of(3, 3_000, 3),
        rows: &[
            yes(0, 1, 2, 1_000),
            yes(0, 1, 1, 2_000),
            yes(0, 1, 0, 3_000),
            no(0, 1, 0, 1_000, 3_000),
        ],
    },
    Case {
        name: "permits_return_one_at_a_time",
        policy: || gcra_of(2, 1_000, 2),
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
        policy: || gcra_of(1, 1_000, 1),
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
        policy: || gcra_of(10, 10_000, 10),
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
        policy: || gcra_of(5, 5_000, 5),
        rows: &[
            never(0, 6, 5, 0),
            yes(0, 5, 0, 5_000),
            never(1_000, u64::MAX, 1, 4_000),
            yes(1_000, 1, 0, 5_000),
        ],
    },
    Case {
        name: "keys_do_not_share_permits",
        policy: || gcra_of(1, 60_000, 1),
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
        policy: || gcra_of(1, 10, 3),
        rows: &[yes(0, 1, 2, 10), yes(86_400_000, 3, 0, 30), no(86_400_000, 1, 0, 10, 30)],
    },
    Case {
        name: "the_bound_is_reached_in_a_trailing_window",
        // Burst 2 and 4 a second: 6 within the second that starts at 0, the published most.
        policy: || gcra_of(4, 1_000, 2),
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
        policy: || gcra_of(100, 1_000, 1),
        rows: &[yes(0, 1, 0, 10), no(9, 1, 0, 1, 1), yes(10, 1, 0, 10), no(15, 1, 0, 5, 5)],
    },
    Case {
        name: "a_step_back_of_the_clock_costs_at_most_one_recovery",
        policy: || gcra_of(2, 2_000, 2),
        rows: &[
            yes(3_600_000, 2, 0, 2_000),
            // An hour back: a debt of an hour is impossible, so a full debt replaces it.
            no(1_000, 1, 0, 1_000, 2_000),
            no(1_999, 1, 0, 1, 1_001),
            yes(2_000, 1, 0, 2_000),
        ],
    },
];
