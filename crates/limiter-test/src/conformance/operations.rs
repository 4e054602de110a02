//! All operations but checks.

use std::time::Duration;

use limiter_core::{Algorithm, Policy, Slots};

use super::{Ask, Case, Row, Want, gcra_of, no, of, policy_of, quota, row, yes};

pub(super) const fn peek(at: u64, remaining: u64, reset: u64) -> Row {
    row(at, Ask::Peek, Want::Usage { remaining, reset })
}

pub(super) const fn reserve(at: u64, cost: u64, within: u64, delay: Option<u64>) -> Row {
    row(at, Ask::Reserve(cost, within), Want::Delay(delay))
}

pub(super) const fn refund(at: u64, index: usize, kept: u64, back: u64) -> Row {
    row(at, Ask::Refund(index, kept), Want::Back(back))
}

const fn reset(at: u64) -> Row {
    row(at, Ask::Reset, Want::Nothing)
}

pub(super) const fn switch(at: u64, policy: fn() -> Policy) -> Row {
    row(at, Ask::Switch(policy), Want::Nothing)
}

pub(super) fn window(permits: u64, window_ms: u64) -> Policy {
    policy_of(Algorithm::FixedWindow, quota(permits, window_ms))
}

fn counter(permits: u64, window_ms: u64) -> Policy {
    policy_of(Algorithm::SlidingCounter, quota(permits, window_ms))
}

pub(super) fn log(permits: u64, window_ms: u64) -> Policy {
    policy_of(Algorithm::SlidingLog, quota(permits, window_ms))
}

fn slots(permits: u64, window_ms: u64) -> Policy {
    let slots = Slots::strict(4);
    policy_of(Algorithm::SubWindows(slots), quota(permits, window_ms))
}

fn queue(depth: u64) -> Policy {
    policy_of(Algorithm::LeakyQueue { depth }, quota(10, 1_000).with_burst(1))
}

pub(super) const ROWS: &[Case] = &[
    Case {
        name: "a_peek_charges_nothing",
        policy: || gcra_of(2, 2_000, 2),
        rows: &[
            peek(0, 2, 0),
            yes(0, 1, 1, 1_000),
            peek(0, 1, 1_000),
            peek(500, 1, 500),
            yes(500, 1, 0, 1_500),
            peek(500, 0, 1_500),
            peek(2_000, 2, 0),
        ],
    },
    Case {
        name: "a_peek_at_windows_charges_nothing",
        policy: || slots(2, 4_000),
        rows: &[peek(0, 2, 0), yes(500, 1, 1, 4_500), peek(4_999, 1, 1), peek(5_000, 2, 0)],
    },
    Case {
        name: "reservations_are_spaced_by_the_rate_in_their_order",
        policy: || gcra_of(10, 1_000, 1),
        rows: &[
            reserve(0, 1, 1_000, Some(0)),
            reserve(0, 1, 1_000, Some(100)),
            reserve(0, 1, 1_000, Some(200)),
            // Too late for its caller, so nothing is charged.
            reserve(0, 1, 299, None),
            reserve(0, 1, 300, Some(300)),
            // A check does not overtake them.
            no(300, 1, 0, 100, 100),
            yes(400, 1, 0, 100),
        ],
    },
    Case {
        name: "a_queue_has_a_depth",
        policy: || queue(2),
        rows: &[
            reserve(0, 1, 60_000, Some(0)),
            reserve(0, 1, 60_000, Some(100)),
            reserve(0, 1, 60_000, Some(200)),
            reserve(0, 1, 60_000, None),
            reserve(100, 1, 60_000, Some(200)),
            no(100, 1, 0, 300, 300),
        ],
    },
    Case {
        name: "windows_reserve_the_next_window",
        policy: || window(2, 1_000),
        rows: &[
            yes(0, 2, 0, 1_000),
            reserve(100, 1, 5_000, Some(900)),
            reserve(100, 2, 5_000, Some(1_900)),
            // What is left of the window between is behind earlier reservations.
            no(100, 1, 0, 2_900, 2_900),
            no(1_000, 1, 0, 2_000, 2_000),
        ],
    },
    Case {
        name: "counters_reserve_when_enough_has_faded",
        policy: || counter(10, 1_000),
        rows: &[
            reserve(0, 10, 0, Some(0)),
            reserve(0, 1, 5_000, Some(1_100)),
            reserve(0, 1, 5_000, Some(1_200)),
            reserve(0, 1, 1_000, None),
        ],
    },
    Case {
        name: "logs_reserve_when_the_oldest_are_over",
        policy: || log(2, 1_000),
        rows: &[
            yes(0, 1, 1, 1_000),
            yes(300, 1, 0, 1_000),
            reserve(300, 1, 5_000, Some(700)),
            reserve(300, 1, 5_000, Some(1_000)),
            reserve(300, 1, 5_000, Some(1_700)),
        ],
    },
    Case {
        name: "a_refund_gives_back_what_was_taken",
        policy: || gcra_of(10, 10_000, 10),
        rows: &[
            reserve(0, 4, 0, Some(0)),
            reserve(0, 6, 0, Some(0)),
            refund(0, 0, 0, 4),
            peek(0, 4, 6_000),
            refund(0, 1, 5, 1),
            peek(0, 5, 5_000),
            // Nothing above fresh.
            reserve(5_000, 1, 0, Some(0)),
            refund(9_000, 2, 0, 0),
            peek(9_000, 10, 0),
        ],
    },
    Case {
        name: "permits_that_have_recovered_do_not_come_back",
        policy: || gcra_of(10, 10_000, 10),
        rows: &[
            reserve(0, 2, 0, Some(0)),
            reserve(0, 8, 0, Some(0)),
            // Each drains from its own moment on, whatever was owed before.
            refund(2_000, 0, 0, 0),
            peek(2_000, 2, 8_000),
            refund(2_000, 1, 0, 6),
            peek(2_000, 8, 2_000),
        ],
    },
    Case {
        // A login that succeeds is settled a moment after it was charged.
        name: "a_permit_that_has_begun_to_recover_comes_back_for_the_rest",
        policy: || gcra_of(5, 5_000, 5),
        rows: &[
            reserve(0, 1, 0, Some(0)),
            refund(100, 0, 0, 1),
            peek(100, 5, 0),
            yes(200, 1, 4, 1_000),
            reserve(200, 1, 0, Some(0)),
            refund(300, 1, 0, 1),
            peek(300, 4, 1_000),
        ],
    },
    Case {
        name: "what_is_kept_of_a_charge_drains_first",
        policy: || gcra_of(10, 10_000, 10),
        rows: &[
            reserve(0, 4, 0, Some(0)),
            reserve(0, 6, 0, Some(0)),
            refund(2_000, 1, 2, 4),
            peek(2_000, 6, 4_000),
        ],
    },
    Case {
        name: "a_refund_after_another_gives_back_nothing_that_has_recovered",
        policy: || gcra_of(10, 10_000, 10),
        rows: &[
            reserve(0, 5, 0, Some(0)),
            reserve(0, 5, 0, Some(0)),
            refund(0, 0, 0, 5),
            // The second has recovered, although it ended at 10 s when it was charged.
            yes(5_000, 10, 0, 10_000),
            refund(5_000, 1, 0, 0),
        ],
    },
    Case {
        name: "a_refund_leaves_what_was_reserved_behind_at_its_moment",
        policy: || gcra_of(1, 1_000, 10),
        rows: &[
            reserve(0, 10, 0, Some(0)),
            reserve(0, 5, 60_000, Some(5_000)),
            refund(0, 0, 0, 5),
            peek(0, 0, 10_000),
            yes(1_000, 1, 0, 10_000),
        ],
    },
    Case {
        name: "a_refund_after_the_window_gives_back_nothing",
        policy: || window(3, 1_000),
        rows: &[
            reserve(0, 2, 0, Some(0)),
            reserve(500, 1, 0, Some(0)),
            refund(999, 1, 0, 1),
            peek(999, 1, 1),
            reserve(1_000, 3, 0, Some(0)),
            refund(1_000, 0, 0, 0),
            peek(1_000, 0, 1_000),
        ],
    },
    Case {
        name: "a_log_forgets_the_entry_that_is_given_back",
        policy: || log(3, 1_000),
        rows: &[
            reserve(0, 1, 0, Some(0)),
            reserve(500, 2, 0, Some(0)),
            refund(600, 1, 1, 1),
            peek(600, 1, 900),
            refund(600, 0, 0, 1),
            peek(600, 2, 900),
        ],
    },
    Case {
        name: "a_counter_gives_back_what_fades",
        policy: || counter(10, 1_000),
        rows: &[
            reserve(0, 10, 0, Some(0)),
            refund(1_500, 0, 4, 6),
            // Four of the previous window, half of which counts.
            peek(1_500, 8, 500),
        ],
    },
    Case {
        name: "a_counter_gives_back_nothing_that_has_faded",
        policy: || counter(10, 1_000),
        rows: &[
            reserve(0, 5, 0, Some(0)),
            yes(1_000, 5, 0, 2_000),
            yes(2_000, 1, 4, 2_000),
            refund(2_000, 0, 0, 0),
            peek(2_000, 4, 2_000),
        ],
    },
    Case {
        name: "a_window_that_was_reserved_and_given_back_leaves_the_present_one_full",
        policy: || window(2, 1_000),
        rows: &[
            yes(0, 2, 0, 1_000),
            reserve(0, 2, 5_000, Some(1_000)),
            refund(0, 0, 0, 2),
            no(0, 1, 0, 1_000, 1_000),
            yes(1_000, 2, 0, 1_000),
        ],
    },
    Case {
        name: "a_reset_key_is_fresh",
        policy: || window(1, 60_000),
        rows: &[
            yes(0, 1, 0, 60_000),
            reset(1),
            peek(1, 1, 0),
            yes(1, 1, 0, 60_000),
            reserve(2, 1, 60_000, Some(59_999)),
            reset(3),
            // What was charged before the reset is forgotten.
            refund(3, 0, 0, 0),
            peek(3, 1, 0),
        ],
    },
    Case {
        // Red if a window were impossible that begins later than the horizon: the replaced one would be replaced again, and
        // a replacement voids the receipts of all keys.
        name: "a_window_that_was_replaced_costs_no_other_key_its_refund",
        policy: || {
            let aligned = policy_of(Algorithm::AlignedWindow, quota(2, 1_000));
            aligned.with_horizon(Duration::ZERO).expect("the horizon is valid")
        },
        rows: &[
            yes(3_600_000, 2, 0, 1_000),
            no(1_900, 1, 0, 1_100, 1_100),
            of("b", reserve(1_910, 1, 0, Some(0))),
            no(1_920, 1, 0, 1_080, 1_080),
            of("b", refund(1_930, 0, 0, 1)),
        ],
    },
    Case {
        name: "windows_keep_their_counts_when_the_quota_changes",
        policy: || window(10, 10_000),
        rows: &[
            yes(0, 8, 2, 10_000),
            switch(4_000, || window(100, 10_000)),
            peek(4_000, 92, 6_000),
            switch(4_000, || window(5, 10_000)),
            no(4_000, 1, 0, 6_000, 6_000),
        ],
    },
    Case {
        name: "counters_in_turn_count_what_the_other_one_took",
        policy: || counter(50, 1_000),
        rows: &[
            yes(0, 50, 0, 2_000),
            switch(0, || counter(5, 1_000)),
            // 50 fade to 4 when 0.08 of the next window is left.
            no(0, 1, 0, 1_920, 2_000),
            yes(1_920, 1, 0, 1_080),
        ],
    },
];
