//! The algorithms with windows.

use limiter_core::{Algorithm, Policy, Slots};

use super::{Case, never, no, of, policy_of, quota, yes};

fn first_use(permits: u64, window_ms: u64) -> Policy {
    policy_of(Algorithm::FixedWindow, quota(permits, window_ms))
}

fn aligned(permits: u64, window_ms: u64) -> Policy {
    policy_of(Algorithm::AlignedWindow, quota(permits, window_ms))
}

fn counter(permits: u64, window_ms: u64) -> Policy {
    policy_of(Algorithm::SlidingCounter, quota(permits, window_ms))
}

fn log(permits: u64, window_ms: u64) -> Policy {
    policy_of(Algorithm::SlidingLog, quota(permits, window_ms))
}

fn strict(number: u32) -> Slots {
    Slots::strict(number)
}

fn loose(number: u32) -> Slots {
    Slots::loose(number)
}

fn sub_windows(permits: u64, window_ms: u64, slots: Slots) -> Policy {
    policy_of(Algorithm::SubWindows(slots), quota(permits, window_ms))
}

pub(super) const ROWS: &[Case] = &[
    Case {
        name: "a_fixed_window_starts_with_its_first_use",
        policy: || first_use(2, 1_000),
        rows: &[
            yes(700, 1, 1, 1_000),
            yes(1_500, 1, 0, 200),
            no(1_500, 1, 0, 200, 200),
            no(1_699, 1, 0, 1, 1),
            yes(1_700, 1, 1, 1_000),
            // After a pause, the next one starts when it is used.
            yes(9_999, 2, 0, 1_000),
            never(9_999, 3, 0, 1_000),
        ],
    },
    Case {
        name: "a_fixed_window_admits_twice_the_limit_around_its_end",
        policy: || first_use(3, 1_000),
        rows: &[
            yes(0, 1, 2, 1_000),
            yes(999, 2, 0, 1),
            yes(1_000, 3, 0, 1_000),
            no(1_998, 1, 0, 2, 2),
        ],
    },
    Case {
        name: "an_aligned_window_starts_at_a_multiple_of_its_length",
        policy: || aligned(2, 1_000),
        rows: &[
            yes(700, 1, 1, 300),
            yes(999, 1, 0, 1),
            no(999, 1, 0, 1, 1),
            yes(1_000, 2, 0, 1_000),
            of("b", yes(1_001, 1, 1, 999)),
        ],
    },
    Case {
        name: "a_step_back_of_the_clock_costs_a_fixed_window_at_most_one_window",
        policy: || first_use(1, 1_000),
        rows: &[yes(3_600_000, 1, 0, 1_000), no(0, 1, 0, 1_000, 1_000), yes(1_000, 1, 0, 1_000)],
    },
    Case {
        // Red if only the present window were full, which may be about to end.
        name: "a_step_back_of_the_clock_fills_the_next_aligned_window_too",
        policy: || aligned(1, 1_000),
        rows: &[
            yes(3_600_000, 1, 0, 1_000),
            no(1_999, 1, 0, 1_001, 1_001),
            no(2_000, 1, 0, 1_000, 1_000),
            yes(3_000, 1, 0, 1_000),
        ],
    },
    Case {
        name: "a_sliding_counter_fades",
        policy: || counter(10, 1_000),
        rows: &[
            yes(0, 10, 0, 2_000),
            // In the next window, one of ten no longer counts after a tenth of it.
            no(0, 1, 0, 1_100, 2_000),
            no(1_099, 1, 0, 1, 901),
            yes(1_100, 1, 0, 1_900),
            yes(1_500, 4, 0, 1_500),
            no(1_500, 6, 0, 700, 1_500),
            // Five of that window, and none of the one before.
            yes(2_000, 5, 0, 2_000),
        ],
    },
    Case {
        name: "a_sliding_counter_forgets_after_two_windows",
        policy: || counter(4, 1_000),
        rows: &[yes(100, 4, 0, 2_000), yes(2_100, 4, 0, 2_000), never(2_100, 5, 0, 2_000)],
    },
    Case {
        name: "a_sliding_log_frees_each_permit_a_window_later",
        policy: || log(3, 1_000),
        rows: &[
            yes(0, 1, 2, 1_000),
            yes(400, 2, 0, 1_000),
            no(500, 1, 0, 500, 900),
            no(500, 2, 0, 900, 900),
            no(999, 1, 0, 1, 401),
            yes(1_000, 1, 0, 1_000),
            no(1_000, 1, 0, 400, 1_000),
            yes(1_400, 2, 0, 1_000),
            never(1_400, 4, 0, 1_000),
        ],
    },
    Case {
        name: "strict_sub_windows_never_admit_more_than_the_limit_in_a_window",
        policy: || sub_windows(3, 5_000, strict(5)),
        rows: &[
            // In the published form, these six were admitted within 4.001 s.
            yes(999, 3, 0, 5_001),
            no(5_000, 3, 0, 1_000, 1_000),
            no(5_999, 1, 0, 1, 1),
            yes(6_000, 3, 0, 6_000),
        ],
    },
    Case {
        name: "loose_sub_windows_free_a_slot_earlier",
        policy: || sub_windows(3, 5_000, loose(5)),
        rows: &[yes(999, 3, 0, 4_001), no(4_999, 1, 0, 1, 1), yes(5_000, 3, 0, 5_000)],
    },
    Case {
        name: "sub_windows_leave_slot_by_slot_and_skip_an_idle_gap",
        policy: || sub_windows(4, 4_000, loose(4)),
        rows: &[
            yes(0, 1, 3, 4_000),
            yes(1_500, 2, 1, 3_500),
            yes(3_000, 1, 0, 4_000),
            yes(4_000, 1, 0, 4_000),
            no(4_000, 2, 0, 1_000, 4_000),
            yes(5_000, 2, 0, 4_000),
            // Nine slots later, nothing is left of any.
            yes(14_500, 4, 0, 3_500),
        ],
    },
    Case {
        name: "paced_slots_have_ceilings_that_sum_to_the_limit",
        // One, one and two permits to a slot.
        policy: || sub_windows(4, 3_000, loose(3).paced()),
        rows: &[
            yes(0, 1, 0, 3_000),
            no(0, 1, 0, 1_000, 3_000),
            // Two fit only into the third slot.
            no(0, 2, 0, 2_000, 3_000),
            yes(1_000, 1, 0, 3_000),
            no(1_000, 1, 0, 1_000, 3_000),
            yes(2_000, 2, 0, 3_000),
            yes(3_000, 1, 0, 3_000),
            never(3_000, 3, 0, 3_000),
        ],
    },
    Case {
        name: "more_slots_than_permits_leave_some_slots_without",
        policy: || sub_windows(1, 3_000, loose(3).paced()),
        rows: &[no(0, 1, 0, 2_000, 0), yes(2_000, 1, 0, 3_000), no(3_000, 1, 0, 2_000, 2_000)],
    },
];
