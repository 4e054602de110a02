//! Which share of its requests each quota serves, as a table of the guide.

use std::fmt::Write;

use limiter_core::{Algorithm, Slots};

use super::{Quota, Real, served};
use crate::subject::Bare;

/// Quotas that take turns on one key.
pub const IN_TURN: [&[Quota]; 6] = [
    &[quota(60, 60), quota(60, 61)],
    &[quota(100, 60), quota(1_000, 3_600)],
    &[quota(10, 1), quota(1_000, 3_600)],
    &[quota(100, 60), quota(100, 61), quota(100, 62)],
    &[quota(10, 1), quota(100, 60), quota(1_000, 3_600)],
    &[quota(60, 60), quota(60, 61), quota(60, 62), quota(60, 63)],
];

const fn quota(limit: u64, length: u64) -> Quota {
    Quota { limit, length }
}

/// Returns the table: a row for each algorithm, with the percentage of its requests that each quota serves.
///
/// # Panics
///
/// Never: the slots are valid.
#[must_use]
pub fn table() -> String {
    let ten = Slots::strict(10);
    let algorithms = [
        ("GCRA", Algorithm::Gcra),
        ("fixed window", Algorithm::FixedWindow),
        ("aligned window", Algorithm::AlignedWindow),
        ("sliding counter", Algorithm::SlidingCounter),
        ("sub-windows, 10 slots", Algorithm::SubWindows(ten)),
        ("sliding log", Algorithm::SlidingLog),
    ];
    let texts = IN_TURN.map(|quotas| {
        let texts = quotas.iter().map(|quota| match quota.length {
            1 => format!("{}/s", quota.limit),
            60 => format!("{}/min", quota.limit),
            3_600 => format!("{}/h", quota.limit),
            seconds => format!("{}/{seconds}s", quota.limit),
        });
        texts.collect::<Vec<_>>().join(", ")
    });
    let mut table = format!("| algorithm | {} |\n", texts.join(" | "));
    let _ = writeln!(table, "|---|{}", "---|".repeat(texts.len()));
    for (name, algorithm) in algorithms {
        let shares = IN_TURN.map(|quotas| {
            let shares = served(&mut Real::new(algorithm, quotas, Bare::new), quotas, 24_000);
            shares.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
        });
        let _ = writeln!(table, "| {name} | {} |", shares.join(" | "));
    }
    table
}
