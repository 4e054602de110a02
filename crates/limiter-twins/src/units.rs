//! Times in microseconds, as scripts count them, and in the core's unit, nanoseconds.

use std::time::Duration;

use limiter_core::Timestamp;

/// Returns microseconds in the core's unit, nanoseconds.
pub(crate) fn nanos(micros: i64) -> u64 {
    u64::try_from(micros).unwrap_or(0).saturating_mul(1_000)
}

pub(crate) fn moment(micros: i64) -> Timestamp {
    Timestamp::from_nanos(nanos(micros))
}

/// Returns nanoseconds in microseconds, rounded up.
pub(crate) fn micros(nanos: u64) -> i64 {
    i64::try_from(nanos.div_ceil(1_000)).unwrap_or(i64::MAX)
}

pub(crate) fn time(time: Duration) -> i64 {
    i64::try_from(time.as_nanos().div_ceil(1_000)).unwrap_or(i64::MAX)
}

pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
