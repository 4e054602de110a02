//! The twin of sub-windows and the exact log, in the words of `ledger/take.lua`.

use super::{
    gcra::up,
    model::{Charge, Twin, digits},
};

/// A slot, a span and a horizon, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    slot: i128,
    span: i128,
    horizon: i128,
}

#[derive(Clone, Debug)]
pub(super) struct Ledger {
    own: Header,
    most: i128,
    loose: bool,
    /// Into how many slots the permits are spread, or 0.
    slots: i128,
    now: i128,
    /// The text of a state that was neither charged nor given back.
    found: Option<String>,
    header: Header,
    /// Time and count, the oldest first.
    entries: Vec<(i128, i128)>,
    /// The permits of all entries.
    total: i128,
}

/// The numbers of a state: the header, the entries and the total.
type Parsed = (Header, Vec<(i128, i128)>, i128);

impl Header {
    fn of(numbers: [i128; 3]) -> Option<Self> {
        let [slot, span, horizon] = numbers;
        let is_possible = slot > 0
            && (slot..=64_000_000_000_000).contains(&span)
            && horizon <= 158_112_000_000_000;
        is_possible.then_some(Self { slot, span, horizon })
    }

    const fn slot_of(&self, at: i128) -> i128 {
        at - at % self.slot
    }

    const fn end_of(&self, at: i128) -> i128 {
        self.slot_of(at) + self.span
    }

    fn has_slots_of(&self, other: &Self) -> bool {
        (self.slot, self.span) == (other.slot, other.span)
    }
}

impl Ledger {
    /// Makes a limit of its arguments.
    pub(super) fn open(arguments: &[&str]) -> Self {
        let [quota, slots, most, kind] = arguments.try_into().unwrap();
        let numbers: Vec<_> = quota.split_whitespace().map(|word| digits(word).unwrap()).collect();
        let [slot, span, horizon] = numbers.try_into().unwrap();
        let own = Header { slot, span, horizon };
        Self {
            own,
            most: digits(most).unwrap(),
            loose: kind == "loose",
            slots: digits(slots).unwrap(),
            now: 0,
            found: None,
            header: own,
            entries: Vec::new(),
            total: 0,
        }
    }

    fn parse(text: &str) -> Option<Parsed> {
        let words: Vec<_> = text.split(' ').collect();
        let numbers = words.iter().map(|word| digits(word)).collect::<Option<Vec<_>>>()?;
        let (&[newest, count, total, slot, span, horizon], older) =
            numbers.split_first_chunk::<6>()?;
        let (pairs, []) = older.as_chunks::<2>() else { return None };
        let has_lengths = |pair: &&[&str]| pair[0].len() == 16 && pair[1].len() <= 16;
        let are_possible = has_lengths(&&words[..2])
            && words[2].len() <= 16
            && words[6..].chunks(2).all(|pair| has_lengths(&pair));
        let entries = pairs.iter().map(|&[at, count]| (at, count)).chain([(newest, count)]);
        let header = Header::of([slot, span, horizon]).filter(|_| are_possible)?;
        Some((header, entries.collect(), total))
    }

    /// Returns how many permits count at a moment, and the first entry that does.
    fn sum(&self, at: i128) -> (i128, usize) {
        let is_over = |(taken, _): &&(i128, i128)| self.counts_until(*taken) <= at;
        let over: Vec<_> = self.entries.iter().take_while(is_over).collect();
        (self.total - over.iter().map(|(_, count)| count).sum::<i128>(), over.len())
    }

    /// Returns until when an entry counts: by the quota, or until those that wrote forget it.
    fn counts_until(&self, at: i128) -> i128 {
        self.own.end_of(at).min(self.header.end_of(at))
    }

    /// Returns the header of entries that the quota and those of another header have to find.
    fn join(&self, header: Header) -> Header {
        Header {
            slot: if header.has_slots_of(&self.own) { self.own.slot } else { 1 },
            span: header.span.max(self.own.span),
            horizon: header.horizon.max(self.own.horizon),
        }
    }

    fn ceiling(&self, slot: i128) -> i128 {
        let number = slot % self.slots;
        self.most * (number + 1) / self.slots - self.most * number / self.slots
    }

    /// Returns the entries of the slot of a moment that count then.
    fn in_slot(&self, at: i128) -> Vec<(i128, i128)> {
        let counts = |(taken, _): &&(i128, i128)| {
            *taken >= self.own.slot_of(at) && self.counts_until(*taken) > at
        };
        self.entries.iter().filter(counts).copied().collect()
    }

    fn room_in_slot(&self, at: i128) -> i128 {
        if self.slots == 0 {
            return i128::MAX;
        }
        let taken: i128 = self.in_slot(at).iter().map(|(_, count)| count).sum();
        (self.ceiling(at / self.own.slot) - taken).max(0)
    }

    /// Returns the first moment from `at` on at which a slot has room for a cost.
    fn fits_by_pace(&self, at: i128, cost: i128) -> i128 {
        let slot = at / self.own.slot;
        let entries = self.in_slot(at);
        let mut taken: i128 = entries.iter().map(|(_, count)| count).sum();
        let (room, mut fits) = (self.ceiling(slot) - cost, at);
        for (moment, count) in entries {
            if taken <= room {
                break;
            }
            fits = fits.max(self.counts_until(moment));
            taken -= count;
        }
        if taken <= room && fits < (slot + 1) * self.own.slot {
            return fits;
        }
        let mut enough = (slot + 1..).filter(|slot| self.ceiling(*slot) >= cost);
        enough.next().unwrap() * self.own.slot
    }
}

impl Twin for Ledger {
    fn read(&mut self, text: Option<&str>, now: i128) -> bool {
        (self.now, self.header, self.entries) = (now, self.own, Vec::new());
        (self.found, self.total) = (None, 0);
        let Some(text) = text else { return true };
        let found = Self::parse(text);
        let possible = found.clone().filter(|(header, entries, _)| {
            let latest = now + header.horizon.max(header.slot);
            entries.last().is_none_or(|(at, _)| *at <= latest)
        });
        let Some((header, entries, total)) = possible else {
            let at = if self.loose { up(now, self.own.slot) * self.own.slot } else { now };
            let (header, _, total) = found.unwrap_or((self.own, Vec::new(), 0));
            self.header = self.join(header);
            self.header.horizon = self.header.horizon.max(at - now);
            self.total = total.max(self.most);
            self.entries = vec![(at, self.total)];
            return false;
        };
        if entries.last().is_none_or(|(at, _)| header.end_of(*at) <= now) {
            return true;
        }
        let is_over = |(at, _): &&(i128, i128)| header.end_of(*at) <= now;
        let over: i128 = entries.iter().take_while(is_over).map(|(_, count)| count).sum();
        self.total = total - over;
        self.entries =
            entries.into_iter().skip_while(|(at, _)| header.end_of(*at) <= now).collect();
        self.header = header;
        self.found = Some(text.to_owned());
        true
    }

    fn fits(&self, cost: i128, from: i128) -> Option<i128> {
        let largest = if self.slots > 0 { up(self.most, self.slots) } else { self.most };
        if cost > largest {
            return None;
        }
        let (mut sum, first) = self.sum(from);
        let mut at = self.entries.last().map_or(from, |(at, _)| from.max(self.own.slot_of(*at)));
        for (taken, count) in &self.entries[first..] {
            if sum <= self.most - cost {
                break;
            }
            at = at.max(self.counts_until(*taken));
            sum -= count;
        }
        if self.slots > 0 {
            at = self.fits_by_pace(at, cost);
        }
        Some(at)
    }

    fn charge(&mut self, cost: i128, at: i128) -> i128 {
        self.found = None;
        self.header = self.join(self.header);
        self.total += cost;
        match self.entries.last_mut() {
            Some(last) if self.own.slot_of(last.0) >= self.own.slot_of(at) => {
                *last = (last.0.max(at), last.1 + cost);
            }
            _ => self.entries.push((at, cost)),
        }
        self.entries.last().unwrap().0 - self.now
    }

    fn refund(&mut self, charge: &Charge, mark: i128) -> (i128, bool) {
        self.found = None;
        let mark = charge.taken_at + mark;
        let index = self.entries.partition_point(|(at, _)| *at < mark);
        let Some(entry) = self.entries.get_mut(index) else { return (0, false) };
        if self.own.slot_of(entry.0) != self.own.slot_of(mark) {
            return (0, false);
        }
        let permits = charge.permits.min(entry.1);
        entry.1 -= permits;
        self.total -= permits;
        while self.entries.last().is_some_and(|(_, count)| *count == 0) {
            self.entries.pop();
        }
        (permits, permits == charge.cost)
    }

    fn usage(&self) -> [i128; 2] {
        let room = (self.most - self.sum(self.now).0).max(0).min(self.room_in_slot(self.now));
        let Some((last, _)) = self.entries.last() else { return [0, room] };
        let has_begun = self.own.slot_of(*last) <= self.now;
        [(self.counts_until(*last) - self.now).max(0), if has_begun { room } else { 0 }]
    }

    fn text(&self) -> (String, i128) {
        let Header { slot, span, horizon } = self.header;
        let Some(((last, count), older)) = self.entries.split_last().filter(|_| self.total > 0)
        else {
            return ("-".to_owned(), 0);
        };
        let older = older.iter().map(|(at, count)| format!(" {at} {count}"));
        let text = format!("{last} {count} {} {slot} {span} {horizon}", self.total)
            + &older.collect::<String>();
        (self.found.clone().unwrap_or(text), self.header.end_of(*last) - self.now)
    }
}
