//! The unit of windows and logs: nanoseconds since the clock's zero.

use crate::Timestamp;

/// The latest time that windows and logs read, 566 years after the clock's zero. Later times are read as
/// this one, so that no sum of a time, a window and a horizon overflows.
pub(super) const LAST: u64 = u64::MAX - (1 << 59);

pub(super) const fn nanos(at: Timestamp) -> u64 {
    if at.as_nanos() < LAST { at.as_nanos() } else { LAST }
}
