//! Charges of as many permits as fit, and of permits in any case.

use std::time::Duration;

use limiter_core::{Algorithm, Policy, Slots};

use super::{Ask, Case, Row, Want, gcra_of, no, policy_of, quota, row, yes};

const fn take(at: u64, most: u64, permits: u64, remaining: u64, reset: u64) -> Row {
    row(at, Ask::TakeUpTo(most), Want::Took { permits, remaining, reset })
}

const fn take_none(at: u64, most: u64, retry: u64, reset: u64) -> Row {
    row(at, Ask::TakeUpTo(most), Want::Refused { remaining: 0, retry: Some(retry), reset })
}

const fn charge(at: u64, cost: u64, permits: u64, remaining: u64, reset: u64) -> Row {
    row(at, Ask::Charge(cost), Want::Took { permits, remaining, reset })
}

const fn refund(at: u64, index: usize, kept: u64, back: u64) -> Row {
    row(at, Ask::Refund(index, kept), Want::Back(back))
}

const fn peek(at: u64, remaining: u64, reset: u64) -> Row {
    row(at, Ask::Peek, Want::Usage { remaining, reset })
}

const fn by(index: u8, row: Row, want: &'static Want) -> Row {
    Row { want: Want::By(index, want), ..row }
}

fn of(algorithm: Algorithm) -> Policy {
    policy_of(algorithm, quota(4, 1_000))
}

/// Ten a second of a burst of ten, and twelve an hour.
fn second_and_hour() -> Policy {
    let second = gcra_of(10, 1_000, 10);
    let hour = Policy::new("hour", Algorithm::FixedWindow, quota(12, HOUR));
    hour.and_then(|hour| Policy::all_of("test", [second, hour])).expect("the limits are valid")
}

/// One a second of a burst of seven, promised up to half a minute ahead.
fn seven_with_a_horizon() -> Policy {
    gcra_of(7, 7_000, 7).with_horizon(Duration::from_secs(30)).expect("the horizon is valid")
}

const HOUR: u64 = 3_600_000;

pub(super) const ROWS: &[Case] = &[
    Case {
        name: "what_fits_is_taken_and_what_is_not_used_comes_back",
        policy: || gcra_of(10, 10_000, 10),
        rows: &[
            take(0, 4, 4, 6, 4_000),
            take(0, 10, 6, 0, 10_000),
            take_none(0, 10, 1_000, 10_000),
            take_none(999, 3, 1, 9_001),
            take(1_000, u64::MAX, 1, 0, 10_000),
            refund(1_000, 1, 2, 4),
            peek(1_000, 4, 6_000),
        ],
    },
    Case {
        name: "a_fixed_window_is_taken_up_to_its_limit",
        policy: || of(Algorithm::FixedWindow),
        rows: &[take(0, 3, 3, 1, 1_000), take(10, 3, 1, 0, 990), take_none(10, 3, 990, 990)],
    },
    Case {
        name: "a_sliding_counter_is_taken_up_to_what_has_faded",
        policy: || of(Algorithm::SlidingCounter),
        rows: &[
            take(0, 9, 4, 0, 2_000),
            take(1_500, 9, 2, 0, 1_500),
            take_none(1_500, 9, 250, 1_500),
        ],
    },
    Case {
        name: "a_log_is_taken_up_to_what_has_ended",
        policy: || of(Algorithm::SlidingLog),
        rows: &[
            take(0, 1, 1, 3, 1_000),
            take(500, 9, 3, 0, 1_000),
            take_none(500, 9, 500, 1_000),
            take(1_000, 9, 1, 0, 1_000),
        ],
    },
    Case {
        name: "a_paced_slot_is_taken_up_to_its_ceiling",
        policy: || of(Algorithm::SubWindows(Slots::strict(2).paced())),
        rows: &[take(0, 9, 2, 0, 1_500), take_none(100, 9, 400, 1_400), take(500, 1, 1, 1, 1_500)],
    },
    Case {
        // The horizon of this quota is a minute, the least.
        name: "a_charge_in_any_case_leaves_a_debt_up_to_the_burst_and_the_horizon",
        policy: || gcra_of(10, 10_000, 10),
        rows: &[
            yes(0, 1, 9, 1_000),
            charge(0, 49, 49, 0, 50_000),
            no(0, 1, 0, 41_000, 50_000),
            charge(0, 49, 20, 0, 70_000),
            charge(0, 1, 0, 0, 70_000),
            charge(500, 1, 0, 0, 69_500),
            charge(1_000, 3, 1, 0, 70_000),
            // Only what no later charge needs: of its own 49 permits a burst, less the 21 behind it.
            refund(1_000, 0, 0, 0),
            peek(1_000, 0, 70_000),
        ],
    },
    Case {
        // The five would be used beside seven others, of a burst of seven.
        name: "a_refund_of_more_than_a_burst_keeps_what_is_reserved_behind_it",
        policy: || seven_with_a_horizon(),
        rows: &[
            charge(0, 18, 18, 0, 18_000),
            row(0, Ask::Reserve(5, 30_000), Want::Delay(Some(16_000))),
            refund(0, 0, 0, 2),
            yes(16_000, 2, 0, 7_000),
            no(16_000, 1, 0, 1_000, 7_000),
        ],
    },
    Case {
        name: "a_reservation_for_the_next_window_that_is_refunded_leaves_the_present_one",
        policy: || of(Algorithm::FixedWindow),
        rows: &[
            yes(0, 2, 2, 1_000),
            row(100, Ask::Reserve(3, 2_000), Want::Delay(Some(900))),
            peek(100, 0, 1_900),
            refund(100, 0, 0, 3),
            peek(100, 2, 900),
            yes(100, 2, 0, 900),
        ],
    },
    Case {
        name: "a_reservation_that_a_counter_refunds_leaves_the_present_window",
        policy: || of(Algorithm::SlidingCounter),
        rows: &[
            yes(0, 2, 2, 2_000),
            row(100, Ask::Reserve(3, 2_000), Want::Delay(Some(1_400))),
            peek(100, 0, 2_900),
            refund(100, 0, 0, 3),
            peek(100, 2, 1_900),
            yes(100, 2, 0, 1_900),
            // Behind a window that has begun since the last charge.
            row(1_500, Ask::Reserve(4, 3_000), Want::Delay(Some(500))),
            peek(1_500, 0, 2_500),
            refund(1_500, 1, 0, 4),
            peek(1_500, 2, 500),
        ],
    },
    Case {
        name: "a_queue_is_charged_up_to_its_depth",
        policy: || policy_of(Algorithm::LeakyQueue { depth: 2 }, quota(10, 1_000).with_burst(1)),
        rows: &[charge(0, 9, 3, 0, 300), no(0, 1, 0, 300, 300), yes(300, 1, 0, 100)],
    },
    Case {
        name: "a_fixed_window_is_overshot_once",
        policy: || of(Algorithm::FixedWindow),
        rows: &[
            yes(0, 4, 0, 1_000),
            // At its limit, so that a check of the last permit can be charged for afterwards.
            charge(0, 500, 500, 0, 1_000),
            charge(0, 500, 0, 0, 1_000),
            refund(0, 0, 100, 400),
            no(0, 1, 0, 1_000, 1_000),
            charge(1_000, 3, 3, 1, 1_000),
        ],
    },
    Case {
        name: "an_overshot_counter_fades",
        policy: || of(Algorithm::SlidingCounter),
        rows: &[
            charge(0, 8, 8, 0, 2_000),
            // 8 fade to 3 when 3/8 of the next window is left.
            no(0, 1, 0, 1_625, 2_000),
            charge(1_400, 1, 0, 0, 600),
            charge(1_500, 1, 1, 0, 1_500),
        ],
    },
    Case {
        name: "a_log_is_overshot_until_it_has_ended",
        policy: || of(Algorithm::SlidingLog),
        rows: &[
            yes(0, 3, 1, 1_000),
            charge(100, 9, 9, 0, 1_000),
            charge(100, 1, 0, 0, 1_000),
            refund(100, 0, 2, 7),
            no(100, 1, 0, 900, 1_000),
            yes(1_000, 2, 0, 1_000),
        ],
    },
    Case {
        name: "slots_are_overshot_until_they_have_ended",
        policy: || of(Algorithm::SubWindows(Slots::strict(2).paced())),
        rows: &[
            yes(0, 2, 0, 1_500),
            charge(0, 2, 2, 0, 1_500),
            charge(0, 9, 9, 0, 1_500),
            charge(500, 9, 0, 0, 1_000),
            no(500, 1, 0, 1_000, 1_000),
        ],
    },
    Case {
        name: "several_limits_are_taken_up_to_what_fits_all",
        policy: second_and_hour,
        rows: &[
            by(
                1,
                row(0, Ask::Check(9), Want::Nothing),
                &Want::Admitted { remaining: 1, reset: 900 },
            ),
            take(0, 9, 1, 0, 1_000),
            by(
                1,
                take_none(0, 9, 100, 1_000),
                &Want::Refused { remaining: 0, retry: Some(100), reset: 1_000 },
            ),
            take(1_000, 9, 2, 0, HOUR - 1_000),
        ],
    },
    Case {
        name: "each_of_several_limits_is_charged_up_to_its_own_bound",
        policy: second_and_hour,
        rows: &[
            // The horizon of the first is a minute: 610 permits.
            charge(0, 700, 610, 0, HOUR),
            // The hour is overshot, and the second is charged all the same.
            charge(10_000, 5, 0, 0, HOUR - 10_000),
            refund(10_000, 0, 600, 10),
            row(
                10_000,
                Ask::Check(1),
                Want::Refused { remaining: 0, retry: Some(HOUR - 10_000), reset: HOUR - 10_000 },
            ),
        ],
    },
];
