//! Several limits at once.

use limiter_core::{Algorithm, Policy};

use super::{Ask, Case, Row, Want, quota, row};

/// Two a second and three an hour.
fn burst_and_hourly(second: Algorithm, hour: Algorithm) -> Policy {
    let burst = Policy::new("burst", second, quota(2, 1_000));
    let hourly = Policy::new("hourly", hour, quota(3, 3_600_000));
    let limits = burst.and_then(|burst| hourly.map(|hourly| [hourly, burst]));
    limits.and_then(|limits| Policy::all_of("test", limits)).expect("the limits are valid")
}

const fn by(index: u8, at: u64, cost: u64, want: &'static Want) -> Row {
    row(at, Ask::Check(cost), Want::By(index, want))
}

const HOUR: u64 = 3_600_000;

pub(super) const ROWS: &[Case] = &[
    Case {
        name: "windows_charge_all_or_none",
        policy: || burst_and_hourly(Algorithm::FixedWindow, Algorithm::FixedWindow),
        rows: &[
            by(0, 0, 1, &Want::Admitted { remaining: 1, reset: 1_000 }),
            by(0, 0, 1, &Want::Admitted { remaining: 0, reset: 1_000 }),
            // The burst refuses, and the hour is not charged.
            by(0, 0, 1, &Want::Refused { remaining: 0, retry: Some(1_000), reset: 1_000 }),
            by(1, 1_000, 1, &Want::Admitted { remaining: 0, reset: HOUR - 1_000 }),
            // Both refuse, and the longer wait is returned.
            by(
                1,
                1_000,
                2,
                &Want::Refused { remaining: 0, retry: Some(HOUR - 1_000), reset: HOUR - 1_000 },
            ),
            by(0, HOUR, 2, &Want::Admitted { remaining: 0, reset: 1_000 }),
        ],
    },
    Case {
        name: "algorithms_mix",
        policy: || burst_and_hourly(Algorithm::Gcra, Algorithm::SlidingLog),
        rows: &[
            by(0, 0, 2, &Want::Admitted { remaining: 0, reset: 1_000 }),
            by(0, 100, 1, &Want::Refused { remaining: 0, retry: Some(400), reset: 900 }),
            // As few are left of both, and the log takes longer to recover.
            by(1, 500, 1, &Want::Admitted { remaining: 0, reset: HOUR }),
            by(
                1,
                1_500,
                1,
                &Want::Refused { remaining: 0, retry: Some(HOUR - 1_500), reset: HOUR - 1_000 },
            ),
            by(0, 1_500, 3, &Want::Refused { remaining: 2, retry: None, reset: 0 }),
        ],
    },
];
