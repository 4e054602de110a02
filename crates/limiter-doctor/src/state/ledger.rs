//! Sub-windows and logs: permits by the time at which they were taken.

use super::{
    Field, State, micros_of,
    numbers::{Reader, whole},
};
use crate::words::permits;

/// The numbers before the entries.
struct Header {
    slot: u64,
    span: u64,
    horizon: u64,
}

impl Header {
    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let (slot, span, horizon) = (reader.whole()?, reader.whole()?, reader.whole()?);
        (slot > 0 && slot <= span).then_some(Self { slot, span, horizon })
    }

    /// Returns when the permits of an entry stop counting.
    fn end_of(&self, at: u64) -> u64 {
        (at - at % self.slot).saturating_add(self.span)
    }

    /// Returns how many permits of the entries no longer count.
    fn over(&self, entries: &[(u64, u64)], now: u64) -> u64 {
        let over = entries.iter().filter(|(at, _)| self.end_of(*at) <= now);
        over.map(|(_, count)| count).fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Returns for how long an entry counts, in words.
    fn counts(&self, at: u64, now: u64) -> String {
        match self.end_of(at).saturating_sub(now) {
            0 => "no longer counts".to_owned(),
            left => format!("counts for another {}", micros_of(left)),
        }
    }

    fn fields(&self, reader: &Reader<'_>, (at, count): (u64, u64), now: u64) -> Vec<Field> {
        let slot = match self.slot {
            1 => "each moment has an entry of its own".to_owned(),
            slot => format!("permits of {} share an entry", micros_of(slot)),
        };
        let newest =
            format!("{} of the newest entry, which {}", permits(count), self.counts(at, now));
        vec![
            reader.field(0, "slot", slot),
            reader.field(1, "span", format!("an entry counts for {}", micros_of(self.span))),
            reader.field(
                2,
                "horizon",
                format!("permits are promised up to {} ahead", micros_of(self.horizon)),
            ),
            Field { name: "newest", value: format!("{at} {count}"), meaning: newest },
        ]
    }

    fn is_possible(&self, newest: u64, now: u64) -> bool {
        newest <= now.saturating_add(self.horizon.max(self.slot))
    }
}

/// Returns the state of a list: a header, `slot span horizon total oldest`, and time and count of each
/// entry, the newest entry first. Of a long list, entries in the middle may be missing.
pub(super) fn of_list(family: &str, elements: &[String], now: u64) -> State {
    let text = match elements.len() {
        length @ 0..=7 => elements.get(..length).unwrap_or_default().join(", "),
        _ => elements.get(..5).unwrap_or_default().join(", ") + ", ...",
    };
    let state = read_list(elements, now).unwrap_or_else(State::unreadable);
    State { family: family.to_owned(), text, ..state }
}

fn read_list(elements: &[String], now: u64) -> Option<State> {
    let (head, rest) = elements.split_first()?;
    let mut reader = Reader::new(head);
    let header = Header::read(&mut reader)?;
    let (total, oldest) = (reader.whole()?, reader.whole()?);
    let entries = pairs(rest.iter().map(String::as_str))?;
    let newest = *entries.first()?;
    let mut fields = header.fields(&reader, newest, now);
    let total_field = reader.field(3, "total", format!("all entries have {}", permits(total)));
    let oldest = format!("the time of the oldest entry, which {}", header.counts(oldest, now));
    let oldest_field = reader.field(4, "oldest", oldest);
    fields.insert(3, total_field);
    fields.insert(4, oldest_field);
    let used = total.saturating_sub(header.over(&entries, now));
    let fresh_in = header.end_of(newest.0).saturating_sub(now);
    let state = State::of(used, fresh_in, header.is_possible(newest.0, now), fields);
    // All that was read of the oldest entries is over, and there are more.
    let sum = entries.iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
    let read_are_over = entries.iter().skip(1).all(|(at, _)| header.end_of(*at) <= now);
    Some(State { is_upper_bound: fresh_in > 0 && sum < total && read_are_over, ..state })
}

/// Returns the state of one of several limits: `slot span horizon at count at count ...`, the oldest
/// entry first.
pub(super) fn of_text(text: &str, now: u64) -> Option<State> {
    let mut reader = Reader::new(text);
    let header = Header::read(&mut reader)?;
    let entries = pairs(text.split(' ').skip(3))?;
    let newest = *entries.last()?;
    let total = entries.iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
    let used = total.saturating_sub(header.over(&entries, now));
    let fresh_in = header.end_of(newest.0).saturating_sub(now);
    let fields = header.fields(&reader, newest, now);
    Some(State::of(used, fresh_in, header.is_possible(newest.0, now), fields))
}

/// Returns times and counts that take turns.
fn pairs<'a>(words: impl Iterator<Item = &'a str>) -> Option<Vec<(u64, u64)>> {
    let numbers: Vec<u64> = words.map(whole).collect::<Option<_>>()?;
    let (pairs, rest) = numbers.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|&[at, count]| (at, count)).collect())
}
