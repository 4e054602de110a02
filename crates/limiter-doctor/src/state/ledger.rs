//! Sub-windows and logs: permits by the time at which they were taken.

use limiter_redis::state::Log;

use super::{Field, State, field, micros_of, when};
use crate::words::permits;

/// Returns the state of a log, of which at least the oldest entry that counts was read.
pub(super) fn of(log: &Log, text: &str, now: u64) -> State {
    let fresh_in = log.end_of(&log.newest).saturating_sub(now);
    let is_possible = log.newest.at <= now.saturating_add(log.horizon.max(log.slot));
    State::of(log.permits_at(now), fresh_in, is_possible, fields(log, text, now))
}

fn fields(log: &Log, text: &str, now: u64) -> Vec<Field> {
    let slot = match log.slot {
        1 => "each moment has an entry of its own".to_owned(),
        slot => format!("permits of {} share an entry", micros_of(slot)),
    };
    let newest = match log.end_of(&log.newest).saturating_sub(now) {
        0 => "no longer counts".to_owned(),
        left => format!("counts for another {}", micros_of(left)),
    };
    let mut fields = vec![
        field(text, 0, "newest", format!("the time of the newest entry, which {newest}")),
        field(text, 1, "count", format!("the newest entry has {}", permits(log.newest.count))),
        field(
            text,
            2,
            "total",
            "the permits of all entries so far, also of removed ones".to_owned(),
        ),
        field(text, 3, "slot", slot),
        field(text, 4, "span", format!("an entry counts for {}", micros_of(log.span))),
        field(
            text,
            5,
            "horizon",
            format!("permits are promised up to {} ahead", micros_of(log.horizon)),
        ),
    ];
    let oldest = log.older.iter().find(|entry| log.end_of(entry) > now);
    if let Some(oldest) = oldest {
        let meaning = when("the time of the oldest entry that counts", oldest.at, now);
        fields.push(Field { name: "oldest", value: oldest.at.to_string(), meaning });
    }
    fields
}
