//! Fixed and aligned windows, and the sliding counter: a window for each length.

use limiter_core::Limit;

use super::{Field, State, micros_of, when};
use crate::stored::Window;
use crate::words::permits;

/// Returns the state of windows as a limit counts it, or if none is given, that of the fullest of them.
pub(super) fn of(windows: &[Window], limit: Option<&Limit>, now: u64) -> State {
    let is_possible = windows.iter().all(|it| it.end.saturating_sub(now) <= it.reach);
    let fields = windows.iter().flat_map(|window| fields(window, now)).collect();
    // Nothing is charged before what was reserved.
    let from = windows.iter().map(start).fold(now, u64::max);
    let length = limit.and_then(|it| u64::try_from(it.quota().window().as_micros()).ok());
    let (used, fresh_at) = match length {
        Some(length) => of_length(windows, length, from),
        None => {
            let present: Vec<_> = windows.iter().filter_map(|window| at(*window, from)).collect();
            let fullest = present.iter().map(|window| counted(window, from)).max();
            let ends = windows.iter().filter_map(|window| at(*window, now));
            (fullest.unwrap_or(0), ends.map(|window| fresh_at(&window)).fold(now, u64::max))
        }
    };
    State::of(used, fresh_at.saturating_sub(now), is_possible, fields)
}

/// Returns the permits that count at a moment for a quota with windows of a length, and when it is fresh.
fn of_length(windows: &[Window], length: u64, from: u64) -> (u64, u64) {
    let own = windows.iter().find(|it| it.serves(length)).and_then(|own| at(*own, from));
    // A window that opens takes its count from those that count since a moment within its length.
    let sources = |from: u64| {
        let present = windows.iter().filter_map(move |window| at(*window, from));
        present.filter(move |it| it.count > 0 && it.since + length > from)
    };
    let used = match &own {
        Some(own) => counted(own, from),
        None => sources(from).map(|it| it.count).max().unwrap_or(0),
    };
    let fresh_at = own.as_ref().map_or(from, fresh_at);
    let until = sources(fresh_at).map(|it| it.end.min(it.since + length));
    (used, until.fold(fresh_at, u64::max))
}

fn start(window: &Window) -> u64 {
    window.end.saturating_sub(window.length)
}

/// Returns the window that a moment is in, or this one if it has not begun; `None` if nothing counts any more.
fn at(window: Window, moment: u64) -> Option<Window> {
    let Window { length, count, end, .. } = window;
    let present = if window.previous.is_some() && end <= moment {
        Window { since: end, end: end + length, count: 0, previous: Some(count), ..window }
    } else {
        window
    };
    (fresh_at(&present) > moment).then_some(present)
}

/// Returns when nothing in the window counts any more.
fn fresh_at(window: &Window) -> u64 {
    match (window.count, window.previous) {
        (0, None | Some(0)) => start(window),
        (1.., Some(_)) => window.end + window.length,
        _ => window.end,
    }
}

/// Returns how many permits count at a moment, rounded up.
fn counted(window: &Window, moment: u64) -> u64 {
    let left = u128::from(window.end.saturating_sub(moment).min(window.length));
    let previous = u128::from(window.previous.unwrap_or(0));
    let faded = (previous * left).div_ceil(window.length.into());
    window.count.saturating_add(u64::try_from(faded).unwrap_or(u64::MAX))
}

fn fields(window: &Window, now: u64) -> Vec<Field> {
    let Window { since, length, reach, count, previous, shortest, end } = *window;
    let length_of = format!("the window takes {}", micros_of(length));
    let reach_of = format!("the end is at most {} ahead", micros_of(reach));
    let opens = if since > now {
        "the time at which the window begins"
    } else {
        "the time since which the window counts"
    };
    let taken = format!("{} taken in the window, or held in leases", permits(count));
    let mut fields = vec![
        Field::of("since", since, when(opens, since, now)),
        Field::of("window", length, length_of),
        Field::of("reach", reach, reach_of),
        Field::of("count", count, taken),
    ];
    if let Some(previous) = previous {
        let taken = format!("{} taken in the window before", permits(previous));
        fields.push(Field::of("previous", previous, taken));
    }
    if shortest != length {
        let decide = format!("quotas with windows from {} on decide by it", micros_of(shortest));
        fields.push(Field::of("shortest", shortest, decide));
    }
    fields.push(Field::of("end", end, when("the end of the window", end, now)));
    fields
}
