//! Numbers as arguments of scripts.

use std::time::Duration;

use bytes::Bytes;
use limiter_core::Cost;

/// The largest number that scripts count exactly.
pub(super) const MAX_EXACT: u64 = 1 << 53;

/// Returns a number as scripts count it exactly.
pub(super) fn exact(number: u64) -> i64 {
    number.min(MAX_EXACT).cast_signed()
}

/// Returns a cost as scripts count it.
pub(super) fn counted(cost: Cost) -> i64 {
    exact(cost.get())
}

/// Returns a time as scripts count it.
pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX)
}

/// Returns a number as an argument.
pub(super) fn number(number: i64) -> Bytes {
    match number {
        -1 => Bytes::from_static(b"-1"),
        1 => Bytes::from_static(b"1"),
        _ => number.to_string().into(),
    }
}
