//! All that is not a check.

use limiter_core::{
    Kind, Policy,
    algorithm::{Slots, Start},
};

use super::{Ask, Case, Row, Want, gcra_of, no, policy_of, quota, row, yes};

const fn peek(at: u64, remaining: u64, reset: u64) -> Row {
    row(at, Ask::Peek, Want::Usage { remaining, reset })
}

const fn reserve(at: u64, cost: u64, within: u64, delay: Option<u64>) -> Row {
    row(at, Ask::Reserve(cost, within), Want::Delay(delay))
}

const fn refund(at: u64, index: usize, kept: u64) -> Row {
    row(at, Ask::Refund(index, kept), Want::Nothing)
}

const fn reset(at: u64) -> Row {
    row(at, Ask::Reset, Want::Nothing)
}

const fn replace(at: u64, policy: fn() -> Policy) -> Row {
    row(at, Ask::Replace(policy), Want::Nothing)
}

const fn by(tier: &'static str, at: u64, cost: u64, want: Want) -> Row {
    row(at, Ask::CheckBy(tier, cost), want)
}

fn window(permits: u64, window_ms: u64) -> Policy {
    policy_of(Kind::FixedWindow(Start::FirstUse), quota(permits, window_ms))
}

fn counter(permits: u64, window_ms: u64) -> Policy {
    policy_of(Kind::SlidingCounter, quota(permits, window_ms))
}

fn log(permits: u64, window_ms: u64) -> Policy {
    policy_of(Kind::SlidingLog, quota(permits, window_ms))
}

fn slots(permits: u64, window_ms: u64) -> Policy {
    let slots = Slots::strict(4).expect("the rows' slots are valid");
    policy_of(Kind::SubWindows(slots), quota(permits, window_ms))
}

fn queue(depth: u64) -> Policy {
    let outflow = quota(10, 1_000).with_burst(1).expect("the rows' bursts are valid");
    policy_of(Kind::LeakyQueue { depth }, outflow)
}

fn with_premium(policy: Policy, premium: Policy) -> Policy {
    let limit = premium.limits().first().expect("a policy has a limit");
    let premium = Policy::new("premium", limit.kind(), *limit.quota());
    premium.and_then(|premium| policy.with_tier(premium)).expect("the tiers are alike")
}

pub(super) const ROWS: &[Case] = &[
    Case {
        name: "a_look_takes_nothing",
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
        name: "a_look_at_windows_takes_nothing",
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
            // Too late for its caller, and so nothing is taken.
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
            // What is left of the window between is behind those who came first.
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
            refund(0, 0, 0),
            peek(0, 4, 6_000),
            refund(0, 1, 5),
            peek(0, 5, 5_000),
            // Nothing above fresh.
            reserve(5_000, 1, 0, Some(0)),
            refund(9_000, 2, 0),
            peek(9_000, 10, 0),
        ],
    },
    Case {
        name: "permits_that_have_recovered_are_not_given_back",
        policy: || gcra_of(10, 10_000, 10),
        rows: &[
            reserve(0, 2, 0, Some(0)),
            reserve(0, 8, 0, Some(0)),
            // The first drains first: nothing is left of it, and all of the second.
            refund(2_000, 0, 0),
            peek(2_000, 2, 8_000),
            refund(2_000, 1, 0),
            peek(2_000, 10, 0),
        ],
    },
    Case {
        name: "a_refund_after_the_window_gives_back_nothing",
        policy: || window(3, 1_000),
        rows: &[
            reserve(0, 2, 0, Some(0)),
            reserve(500, 1, 0, Some(0)),
            refund(999, 1, 0),
            peek(999, 1, 1),
            reserve(1_000, 3, 0, Some(0)),
            refund(1_000, 0, 0),
            peek(1_000, 0, 1_000),
        ],
    },
    Case {
        name: "a_log_forgets_the_entry_that_is_given_back",
        policy: || log(3, 1_000),
        rows: &[
            reserve(0, 1, 0, Some(0)),
            reserve(500, 2, 0, Some(0)),
            refund(600, 1, 1),
            peek(600, 1, 900),
            refund(600, 0, 0),
            peek(600, 2, 900),
        ],
    },
    Case {
        name: "counters_and_slots_take_refunds_while_they_count",
        policy: || counter(10, 1_000),
        rows: &[
            reserve(0, 10, 0, Some(0)),
            refund(1_500, 0, 4),
            // Four of the previous window, half of which counts.
            peek(1_500, 8, 500),
        ],
    },
    Case {
        name: "a_reset_key_is_a_fresh_one",
        policy: || window(1, 60_000),
        rows: &[
            yes(0, 1, 0, 60_000),
            reset(1),
            peek(1, 1, 0),
            yes(1, 1, 0, 60_000),
            reserve(2, 1, 600_000, Some(59_999)),
            reset(3),
            // What was taken before the reset can't be given back.
            refund(3, 0, 0),
            peek(3, 1, 0),
        ],
    },
    Case {
        name: "a_larger_quota_keeps_what_was_taken",
        policy: || gcra_of(10, 10_000, 10),
        rows: &[
            yes(0, 10, 0, 10_000),
            replace(0, || gcra_of(100, 10_000, 100)),
            peek(0, 90, 1_000),
            yes(0, 90, 0, 10_000),
        ],
    },
    Case {
        name: "a_smaller_quota_is_owed_no_more_than_it_has",
        policy: || gcra_of(1_000, 1_000, 1_000),
        rows: &[
            yes(0, 1_000, 0, 1_000),
            replace(0, || gcra_of(10, 10_000, 10)),
            peek(0, 0, 10_000),
            no(0, 1, 0, 1_000, 10_000),
            yes(1_000, 1, 0, 10_000),
        ],
    },
    Case {
        name: "windows_keep_their_counts_when_the_quota_changes",
        policy: || window(10, 10_000),
        rows: &[
            yes(0, 8, 2, 10_000),
            replace(4_000, || window(100, 10_000)),
            peek(4_000, 92, 6_000),
            replace(4_000, || window(5, 2_000)),
            no(4_000, 1, 0, 2_000, 2_000),
            yes(6_000, 5, 0, 2_000),
        ],
    },
    Case {
        name: "a_tier_counts_what_the_other_took",
        policy: || with_premium(gcra_of(10, 10_000, 10), gcra_of(100, 10_000, 100)),
        rows: &[
            yes(0, 10, 0, 10_000),
            by("premium", 0, 60, Want::Admitted { remaining: 30, reset: 7_000 }),
            no(0, 1, 0, 1_000, 10_000),
            by("premium", 0, 31, Want::Refused { remaining: 30, retry: Some(100), reset: 7_000 }),
            yes(1_000, 1, 0, 10_000),
        ],
    },
    Case {
        name: "tiers_of_counters_owe_no_more_than_they_have",
        policy: || with_premium(counter(5, 1_000), counter(50, 1_000)),
        rows: &[
            by("premium", 0, 50, Want::Admitted { remaining: 0, reset: 2_000 }),
            no(0, 1, 0, 1_200, 2_000),
            yes(1_200, 1, 0, 1_800),
        ],
    },
    Case {
        name: "tiers_of_windows_count_for_each_other",
        policy: || with_premium(log(2, 1_000), log(5, 2_000)),
        rows: &[
            by("premium", 0, 4, Want::Admitted { remaining: 1, reset: 2_000 }),
            no(0, 1, 0, 1_000, 1_000),
            yes(1_000, 1, 1, 1_000),
            by(
                "premium",
                1_000,
                1,
                Want::Refused { remaining: 0, retry: Some(1_000), reset: 2_000 },
            ),
        ],
    },
];
