//! The units of states: a quarter of a nanosecond of GCRA's debts, and nanoseconds since the clock's zero of windows and logs.
//!
//! 64 bits of ticks last 146 years and then wrap around, so two moments compare by their difference. A
//! clock may start anywhere, and may step by up to 73 years in either direction.

use core::time::Duration;

use crate::{Quota, Timestamp};

const PER_NANO: u64 = 4;

/// Returns a moment in ticks.
#[inline]
pub(crate) const fn ticks(at: Timestamp) -> u64 {
    at.as_nanos().wrapping_mul(PER_NANO)
}

/// Returns the ticks from `now` until `end`, 0 if that is over.
#[inline]
pub(crate) const fn left(end: u64, now: u64) -> u64 {
    let left = end.wrapping_sub(now);
    if left <= u64::MAX / 2 { left } else { 0 }
}

/// Returns the time of so many ticks, rounded up to the nanosecond.
#[inline]
pub(crate) const fn time(ticks: u64) -> Duration {
    Duration::from_nanos(ticks.div_ceil(PER_NANO))
}

/// Returns a time in ticks.
pub(crate) fn of_time(time: Duration) -> u64 {
    whole(time.as_nanos() * u128::from(PER_NANO))
}

/// Returns the time between two permits of a quota in ticks, rounded up.
pub(crate) fn of_permit(quota: &Quota) -> u64 {
    of_time(quota.window()).div_ceil(quota.permits())
}

/// Returns the time in which a burst recovers in ticks, rounded up once, and not a permit at a time.
pub(crate) fn of_burst(quota: &Quota) -> u64 {
    let exact = quota.window().as_nanos() * u128::from(PER_NANO) * u128::from(quota.burst());
    whole(exact.div_ceil(u128::from(quota.permits())))
}

/// Returns the longest wait of so many permits that are promised one by one: less than for another permit.
///
/// A permit is promised for a whole nanosecond, and the next one follows from there.
pub(crate) fn of_permits(quota: &Quota, permits: u64) -> Duration {
    let permit = of_permit(quota);
    let rounding = permits.saturating_mul(permit.next_multiple_of(PER_NANO) - permit);
    let ticks = permits.saturating_mul(permit).saturating_add(rounding.min(permit - 1));
    Duration::from_nanos(ticks / PER_NANO)
}

/// Returns a number that is too large for 64 bits as the largest one.
pub(crate) fn whole(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// The latest time that windows and logs read, 566 years after the clock's zero. Later times are read as
/// this one, so that no sum of a time, a window and a horizon overflows.
pub(crate) const LAST: u64 = u64::MAX - (1 << 59);

/// Returns a time as windows and logs read it.
pub(crate) const fn read(at: Timestamp) -> Timestamp {
    Timestamp::from_nanos(nanos(at))
}

pub(crate) const fn nanos(at: Timestamp) -> u64 {
    if at.as_nanos() < LAST { at.as_nanos() } else { LAST }
}
