//! Sub-windows and logs: permits by the time at which they were taken.

use super::{
    Field, State, micros_of,
    numbers::{Reader, whole},
};
use crate::words::permits;

/// The numbers before the older entries.
struct Header {
    newest: u64,
    count: u64,
    total: u64,
    slot: u64,
    span: u64,
    horizon: u64,
}

impl Header {
    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let (newest, count, total) = (reader.whole()?, reader.whole()?, reader.whole()?);
        let (slot, span, horizon) = (reader.whole()?, reader.whole()?, reader.whole()?);
        // A time has 16 digits.
        let is_header =
            newest >= 1_000_000_000_000_000 && slot > 0 && slot <= span && count <= total;
        is_header.then_some(Self { newest, count, total, slot, span, horizon })
    }

    /// Returns when the permits of an entry stop counting.
    fn end_of(&self, at: u64) -> u64 {
        (at - at % self.slot).saturating_add(self.span)
    }

    fn fields(&self, reader: &Reader<'_>, now: u64) -> Vec<Field> {
        let slot = match self.slot {
            1 => "each moment has an entry of its own".to_owned(),
            slot => format!("permits of {} share an entry", micros_of(slot)),
        };
        let newest = match self.end_of(self.newest).saturating_sub(now) {
            0 => "no longer counts".to_owned(),
            left => format!("counts for another {}", micros_of(left)),
        };
        let span = format!("an entry counts for {}", micros_of(self.span));
        let horizon = format!("permits are promised up to {} ahead", micros_of(self.horizon));
        vec![
            reader.field(0, "newest", format!("the time of the newest entry, which {newest}")),
            reader.field(1, "count", format!("the newest entry has {}", permits(self.count))),
            reader.field(2, "total", format!("all entries have {}", permits(self.total))),
            reader.field(3, "slot", slot),
            reader.field(4, "span", span),
            reader.field(5, "horizon", horizon),
        ]
    }
}

/// Returns the state of a list, of which the newest of the older entries may be missing.
pub(super) fn of_list(family: &str, elements: &[String], now: u64) -> State {
    let text = match elements.len() {
        length @ 0..=7 => elements.get(..length).unwrap_or_default().join(", "),
        _ => elements.get(..5).unwrap_or_default().join(", ") + ", ...",
    };
    let state = of_text(&elements.join(" "), now).unwrap_or_else(State::unreadable);
    State { family: family.to_owned(), text, ..state }
}

/// Returns the state of `newest count total slot span horizon at count at count ...`, with the older
/// entries from the oldest on.
pub(super) fn of_text(text: &str, now: u64) -> Option<State> {
    let mut reader = Reader::new(text);
    let header = Header::read(&mut reader)?;
    let numbers: Vec<u64> = text.split(' ').skip(6).map(whole).collect::<Option<_>>()?;
    let (older, rest) = numbers.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let sum = |counts: &mut dyn Iterator<Item = u64>| counts.fold(0, u64::saturating_add);
    let over = older.iter().take_while(|[at, _]| header.end_of(*at) <= now);
    let over = sum(&mut over.map(|[_, count]| *count));
    let read = sum(&mut older.iter().map(|[_, count]| *count));
    let fresh_in = header.end_of(header.newest).saturating_sub(now);
    let is_possible = header.newest <= now.saturating_add(header.horizon.max(header.slot));
    let used = header.total.saturating_sub(over);
    let state = State::of(used, fresh_in, is_possible, header.fields(&reader, now));
    // All that was read is over, and there is more.
    let is_missing = read.saturating_add(header.count) < header.total;
    let is_upper_bound = fresh_in > 0 && is_missing && over == read;
    Some(State { is_upper_bound, ..state })
}
