//! Sub-windows and logs: permits by the time at which they were taken.

use limiter_core::{Algorithm, Limit};

use super::{Elements, Field, State, micros_of, when};
use crate::stored::{Log, Writer};
use crate::words::permits;

/// Returns the slot and the span by which a limit counts entries, in microseconds. Returns `None` for other
/// algorithms.
pub(crate) fn span_of(limit: &Limit) -> Option<(u64, u64)> {
    let window = u64::try_from(limit.quota().window().as_micros()).unwrap_or(u64::MAX);
    match limit.algorithm() {
        Algorithm::SlidingLog => Some((1, window)),
        Algorithm::SubWindows(slots) => {
            let number = u64::from(slots.number());
            let slot = window.div_ceil(number);
            Some((slot, slot.saturating_mul(number + u64::from(!slots.is_loose()))))
        }
        _ => None,
    }
}

/// Returns the state of a list as a limit counts it, or if none is given, as its writers do. Returns `None` if
/// it is not a log.
pub(super) fn of(list: &Elements, limit: Option<&Limit>, now: u64) -> Option<State> {
    let elements = [&list.head].into_iter().chain(&list.oldest);
    let log = Log::parse(elements.map(String::as_str))?;
    let mut end = log.end_of(&log.newest);
    if let Some((slot, span)) = limit.and_then(span_of) {
        end = end.min(log.newest.at - log.newest.at % slot + span);
    }
    let is_possible = log.newest.at <= now.saturating_add(log.reach());
    let used = log.total.saturating_sub(list.ended);
    let state = State::of(used, end.saturating_sub(now), is_possible, fields(&log, list, end, now));
    Some(State { is_exact: list.is_whole, ..state })
}

fn fields(log: &Log, list: &Elements, end: u64, now: u64) -> Vec<Field> {
    let newest = match end.saturating_sub(now) {
        0 => "no longer counts".to_owned(),
        left => format!("counts for another {}", micros_of(left)),
    };
    let mut fields = vec![
        Field::of("newest", log.newest.at, format!("the time of the newest entry, which {newest}")),
        Field::of(
            "count",
            log.newest.count,
            format!("the newest entry has {}", permits(log.newest.count)),
        ),
        Field::of("total", log.total, "the permits of all entries".to_owned()),
        Field::of("largest", log.largest, "the most permits of a quota that charged it".to_owned()),
    ];
    for writer in &log.writers {
        fields.extend(fields_of(writer));
        if log.writers.len() > 1 {
            let last = when("the last charge of this quota", writer.newest, now);
            fields.push(Field::of("last", writer.newest, last));
        }
    }
    if list.ended > 0 {
        let more = if list.is_whole { "" } else { "; more entries have, which were not read" };
        let meaning = format!("{} of entries that no longer count{more}", permits(list.ended));
        fields.push(Field::of("ended", list.ended, meaning));
    }
    if let Some(oldest) = log.older.first() {
        let meaning = when("the time of the oldest entry that counts", oldest.at, now);
        fields.push(Field::of("oldest", oldest.at, meaning));
    }
    fields
}

fn fields_of(writer: &Writer) -> [Field; 3] {
    let slot = match writer.slot {
        1 => "each moment has an entry of its own".to_owned(),
        slot => format!("permits of {} share an entry", micros_of(slot)),
    };
    let horizon = format!("permits are promised up to {} ahead", micros_of(writer.horizon));
    [
        Field::of("slot", writer.slot, slot),
        Field::of("span", writer.span, format!("an entry counts for {}", micros_of(writer.span))),
        Field::of("horizon", writer.horizon, horizon),
    ]
}
