//! Policies in turn on one key: those of one span share a state, and those of another one begin with a fresh one.
//!
//! Each of these faults breaks law 9 or a bound, in a search over a model of the rule. Each was made in the code, and the test
//! beside it was red: a row of these or of the other files, or a test of `limiter-core`.
//!
//! | fault | red |
//! |---|---|
//! | spans share a state, clamped to the own burst or not | `another_burst_begins_fresh` |
//! | horizons share a state | `another_horizon_begins_fresh`, and of a window, and of a log |
//! | slots of other lengths share a state | `other_slots_begin_fresh` |
//! | the rounded burst is the span | `a_burst_that_is_rounded_up_is_whole` |
//! | increments are rounded down, or a price once | the same |
//! | the span is the capacity | the same |
//! | a debt above the own burst and horizon is impossible | `what_another_quota_may_owe_is_possible` |
//! | an impossible debt is forgotten | `a_step_back_of_the_clock_costs_at_most_one_recovery` |
//! | a refund ignores what has drained | `permits_that_have_recovered_do_not_come_back` |
//! | a refund moves what is reserved behind it | `a_refund_leaves_what_was_reserved_behind_at_its_moment` |
//! | by another quota of the span | `a_refund_leaves_what_another_quota_has_reserved_behind_it` |
//! | a refund gives back more than a span | `a_refund_of_more_than_a_burst_keeps_what_is_reserved_behind_it` |
//! | a reservation comes back in parts | `the_transition_follows_the_model` |
//! | a receipt outlives a replaced debt | `a_receipt_from_before_a_debt_was_replaced_gives_back_nothing` |
//! | the newest quota begins a new count | `windows_keep_their_counts_when_the_quota_changes` |
//! | a count is clamped to the own limit | `counters_in_turn_count_what_the_other_one_took` |
//! | the count before is rounded down | `a_sliding_counter_fades` |
//! | a replaced count is lowered to the own limit | `a_step_back_gives_no_quota_what_another_one_took` |
//! | a replaced aligned window alone is full | `a_step_back_of_the_clock_fills_the_next_aligned_window_too` |
//! | it is impossible itself | `a_window_that_was_replaced_costs_no_other_key_its_refund` |
//! | a log keeps only what the own limit needs | `logs_keep_the_number_that_is_used` |

use std::time::Duration;

use limiter_core::{Algorithm, Policy, Slots};

use super::{
    Ask, Case, Row, Want, gcra_of, no,
    operations::{log, peek, refund, reserve, switch, window},
    policy_of, quota, row, yes,
};

/// How many permits of [`rounded`] are a burst.
const ROUNDED: u64 = 4_012_500;

/// Returns a quota of a span of 962 ms whose burst takes 963 ms to recover: a permit takes 959.04 quarters of a nanosecond,
/// rounded up to 960.
fn rounded() -> Policy {
    gcra_of(ROUNDED, 962, ROUNDED)
}

/// Returns a quota of the same span whose burst takes exactly 962 ms.
fn exact() -> Policy {
    gcra_of(962, 962, 962)
}

/// Returns a policy whose permits may be promised for the next second, other than by default.
fn within_a_second(policy: Policy) -> Policy {
    policy.with_horizon(Duration::from_secs(1)).expect("the horizon is valid")
}

fn slots(permits: u64, window_ms: u64, slots: Slots) -> Policy {
    policy_of(Algorithm::SubWindows(slots), quota(permits, window_ms))
}

const fn charge(at: u64, cost: u64, permits: u64, reset: u64) -> Row {
    row(at, Ask::Charge(cost), Want::Took { permits, remaining: 0, reset })
}

pub(super) const ROWS: &[Case] = &[
    Case {
        name: "gcra_keeps_the_fraction_that_is_used",
        policy: || gcra_of(10, 10_000, 10),
        rows: &[
            yes(0, 5, 5, 5_000),
            switch(0, || gcra_of(100, 10_000, 100)),
            peek(0, 50, 5_000),
            yes(1_000, 60, 0, 10_000),
            switch(1_000, || gcra_of(10, 10_000, 10)),
            // Its own pace counts.
            no(1_000, 1, 0, 1_000, 10_000),
            yes(2_000, 1, 0, 10_000),
        ],
    },
    Case {
        name: "a_burst_in_proportion_is_the_same_span",
        policy: || gcra_of(10, 10_000, 20),
        rows: &[
            yes(0, 20, 0, 20_000),
            switch(0, || gcra_of(5, 10_000, 10)),
            no(0, 1, 0, 2_000, 20_000),
        ],
    },
    Case {
        name: "another_burst_begins_fresh",
        policy: || gcra_of(10, 10_000, 10),
        rows: &[
            yes(0, 10, 0, 10_000),
            switch(0, || gcra_of(10, 10_000, 5)),
            // The bounds of both add up: 15 at once.
            yes(0, 5, 0, 5_000),
            switch(0, || gcra_of(10, 10_000, 10)),
            peek(0, 0, 10_000),
        ],
    },
    Case {
        name: "another_window_begins_fresh",
        policy: || window(10, 10_000),
        rows: &[
            yes(0, 10, 0, 10_000),
            switch(0, || window(10, 20_000)),
            yes(0, 10, 0, 20_000),
            switch(5_000, || window(10, 10_000)),
            no(5_000, 1, 0, 5_000, 5_000),
        ],
    },
    Case {
        // Red if the smaller limit dropped what it does not need itself.
        name: "logs_keep_the_number_that_is_used",
        policy: || log(5, 2_000),
        rows: &[
            yes(0, 2, 3, 2_000),
            yes(100, 2, 1, 2_000),
            switch(100, || log(2, 2_000)),
            no(100, 1, 0, 2_000, 2_000),
            switch(100, || log(10, 2_000)),
            yes(100, 6, 0, 2_000),
            switch(100, || log(10, 1_000)),
            peek(100, 10, 0),
        ],
    },
    Case {
        // Red if a horizon were not in the identity: one would replace what another one has promised.
        name: "another_horizon_begins_fresh",
        policy: || gcra_of(10, 10_000, 10),
        rows: &[
            yes(0, 10, 0, 10_000),
            reserve(0, 5, 5_000, Some(5_000)),
            switch(0, || within_a_second(gcra_of(10, 10_000, 10))),
            peek(0, 10, 0),
            switch(0, || gcra_of(10, 10_000, 10)),
            peek(0, 0, 15_000),
        ],
    },
    Case {
        name: "another_horizon_of_a_window_begins_fresh",
        policy: || window(10, 1_000),
        rows: &[
            yes(0, 10, 0, 1_000),
            reserve(0, 10, 5_000, Some(1_000)),
            reserve(0, 10, 5_000, Some(2_000)),
            switch(0, || within_a_second(window(10, 1_000))),
            peek(0, 10, 0),
            switch(0, || window(10, 1_000)),
            peek(0, 0, 3_000),
        ],
    },
    Case {
        name: "another_horizon_of_a_log_begins_fresh",
        policy: || log(10, 1_000),
        rows: &[
            yes(0, 10, 0, 1_000),
            reserve(0, 10, 5_000, Some(1_000)),
            reserve(0, 10, 5_000, Some(2_000)),
            switch(0, || within_a_second(log(10, 1_000))),
            peek(0, 10, 0),
            switch(0, || log(10, 1_000)),
            peek(0, 0, 3_000),
        ],
    },
    Case {
        // Red if strict and loose slots, or slots of two lengths, shared a state.
        name: "other_slots_begin_fresh",
        policy: || slots(2, 4_000, Slots::strict(4)),
        rows: &[
            yes(500, 2, 0, 4_500),
            switch(500, || slots(2, 4_000, Slots::loose(4))),
            peek(500, 2, 0),
            switch(500, || slots(2, 5_000, Slots::loose(10))),
            peek(500, 2, 0),
            // Its slots are as long, and count for as long.
            switch(500, || slots(3, 5_000, Slots::loose(5))),
            peek(500, 1, 4_500),
        ],
    },
    Case {
        // Of a window of which five are reserved, the first is dropped, and the second is full from then on.
        name: "of_five_windows_the_second_is_full",
        policy: || window(1, 1_000).with_horizon(Duration::from_secs(10)).expect("it is valid"),
        rows: &[
            reserve(0, 1, 10_000, Some(0)),
            reserve(0, 1, 10_000, Some(1_000)),
            reserve(0, 1, 10_000, Some(2_000)),
            reserve(0, 1, 10_000, Some(3_000)),
            reserve(0, 1, 10_000, Some(4_000)),
            refund(0, 4, 0, 1),
            refund(0, 3, 0, 1),
            refund(0, 2, 0, 1),
            refund(0, 1, 0, 0),
            no(0, 1, 0, 2_000, 2_000),
        ],
    },
    Case {
        // A window whose permits all came back takes none of the places.
        name: "an_empty_window_is_not_kept",
        policy: || window(1, 1_000).with_horizon(Duration::from_secs(10)).expect("it is valid"),
        rows: &[
            reserve(0, 1, 10_000, Some(0)),
            reserve(0, 1, 10_000, Some(1_000)),
            reserve(0, 1, 10_000, Some(2_000)),
            reserve(0, 1, 10_000, Some(3_000)),
            refund(0, 2, 0, 1),
            refund(0, 1, 0, 1),
            reserve(0, 1, 10_000, Some(4_000)),
            refund(0, 4, 0, 1),
            refund(0, 3, 0, 1),
            no(0, 1, 0, 1_000, 1_000),
            refund(0, 0, 0, 1),
            peek(0, 1, 0),
        ],
    },
];

/// Rows of quotas whose increments are rounded up, to a quarter of a nanosecond.
pub(super) const BY_QUARTER_NANOS: &[Case] = &[
    Case {
        // Red if the span were the capacity: the last of the burst would be refused.
        name: "a_burst_that_is_rounded_up_is_whole",
        policy: rounded,
        rows: &[
            // 12,500 permits take 3 ms.
            yes(0, ROUNDED - 12_500, 12_500, 960),
            yes(0, 12_500, 0, 963),
            switch(0, exact),
            no(0, 1, 0, 2, 963),
            yes(2, 1, 0, 962),
        ],
    },
    Case {
        // Red if what is above the own burst and horizon were impossible: the debt would be lowered to the own burst.
        name: "what_another_quota_may_owe_is_possible",
        policy: rounded,
        rows: &[
            // The horizon is a minute.
            charge(0, u64::MAX, 254_012_500, 60_963),
            switch(0, exact),
            peek(0, 0, 60_963),
            no(1, 1, 0, 60_001, 60_962),
        ],
    },
    Case {
        // Red if a refund were limited by the own burst, which is 1 ms more than the span: as much would come back of what
        // is reserved behind it.
        name: "a_refund_leaves_what_another_quota_has_reserved_behind_it",
        policy: rounded,
        rows: &[
            row(
                0,
                Ask::TakeUpTo(u64::MAX),
                Want::Took { permits: ROUNDED, remaining: 0, reset: 963 },
            ),
            switch(0, exact),
            reserve(0, 962, 2_000, Some(963)),
            refund(962, 0, 0, 0),
            peek(963, 0, 962),
        ],
    },
];

/// Returns a quota of a span of a minute whose burst takes 27 ms longer to recover: a permit takes 1,019.54 microseconds, rounded
/// up to 1,020.
fn rounded_to_micros() -> Policy {
    gcra_of(58_850, 60_000, 58_850)
}

/// Returns a quota of the same span whose burst takes exactly a minute.
fn exact_in_micros() -> Policy {
    gcra_of(60_000, 60_000, 60_000)
}

/// The same of quotas whose increments are rounded up to a microsecond.
pub(super) const BY_MICROS: &[Case] = &[
    Case {
        name: "a_burst_that_is_rounded_up_is_whole",
        policy: rounded_to_micros,
        rows: &[
            // 50 permits take 51 ms.
            yes(0, 58_800, 50, 59_976),
            yes(0, 50, 0, 60_027),
            switch(0, exact_in_micros),
            no(0, 1, 0, 28, 60_027),
            yes(28, 1, 0, 60_000),
        ],
    },
    Case {
        name: "what_another_quota_may_owe_is_possible",
        policy: rounded_to_micros,
        rows: &[
            // The horizon is a minute.
            row(
                0,
                Ask::Charge(117_650),
                Want::Took { permits: 117_650, remaining: 0, reset: 120_003 },
            ),
            switch(0, exact_in_micros),
            peek(0, 0, 120_003),
            no(3, 1, 0, 60_001, 120_000),
        ],
    },
    Case {
        name: "a_refund_leaves_what_another_quota_has_reserved_behind_it",
        policy: rounded_to_micros,
        rows: &[
            row(
                0,
                Ask::TakeUpTo(u64::MAX),
                Want::Took { permits: 58_850, remaining: 0, reset: 60_027 },
            ),
            switch(0, exact_in_micros),
            reserve(0, 1_000, 2_000, Some(1_027)),
            refund(0, 0, 0, 57_844),
            peek(0, 57_973, 2_027),
        ],
    },
];
