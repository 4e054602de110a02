//! The twin of sub-windows and the exact log, in the words of `ledger/limit.lua`.

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
}

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
    /// Makes a limit of the words of its quota.
    pub(super) fn open(words: &[&str]) -> Self {
        let numbers: Vec<_> = words.iter().map(|word| digits(word).unwrap()).collect();
        let [slot, span, horizon, most, loose, slots] = numbers.try_into().unwrap();
        let own = Header { slot, span, horizon };
        Self {
            own,
            most,
            loose: loose == 1,
            slots,
            now: 0,
            found: None,
            header: own,
            entries: Vec::new(),
        }
    }

    /// Takes the elements of a list in place of a text: the head, and the entries, the newest first.
    pub(super) fn text_of(list: &str) -> Option<String> {
        let mut words = list.split(',');
        let head: Vec<_> = words.next()?.split(' ').collect();
        let mut entries: Vec<_> = words.collect();
        entries.reverse();
        let entries = entries.chunks(2).flat_map(|entry| entry.iter().rev());
        Some([&head[..3], &entries.copied().collect::<Vec<_>>()].concat().join(" "))
    }

    /// Returns the elements of a list.
    pub(super) fn list(&self) -> Option<String> {
        let Header { slot, span, horizon } = self.header;
        let (oldest, _) = self.entries.first()?;
        let total: i128 = self.entries.iter().map(|(_, count)| count).sum();
        let head = format!("{slot} {span} {horizon} {total} {oldest}");
        let entries = self.entries.iter().rev().map(|(at, count)| format!(",{at},{count}"));
        Some(head + &entries.collect::<String>())
    }

    fn parse(&self, text: &str) -> Option<(Header, Vec<(i128, i128)>)> {
        let numbers = text.split(' ').map(|word| digits(word).filter(|_| word.len() <= 16));
        let numbers = numbers.collect::<Option<Vec<_>>>()?;
        let (head, rest) = numbers.split_first_chunk::<3>()?;
        let (pairs, []) = rest.as_chunks::<2>() else { return None };
        let entries: Vec<_> = pairs.iter().map(|&[at, count]| (at, count)).collect();
        let is_sorted = entries.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let counts = entries.iter().all(|(_, count)| *count > 0);
        Some((Header::of(*head).filter(|_| is_sorted && counts)?, entries))
    }

    /// Returns how many permits count at a moment, and the first entry that does.
    fn sum(&self, at: i128) -> (i128, usize) {
        let mut first = 0;
        if !self.header.has_slots_of(&self.own) {
            let counts = |entry: &(i128, i128)| self.counts_until(entry.0) > at;
            first =
                self.entries.len() - self.entries.iter().rev().take_while(|it| counts(it)).count();
        }
        (self.entries[first..].iter().map(|(_, count)| count).sum(), first)
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
        self.found = None;
        let Some(text) = text else { return true };
        let found = self.parse(text);
        let possible = found.clone().filter(|(header, entries)| {
            let latest = now + header.horizon.max(header.slot);
            entries.last().is_none_or(|(at, _)| *at <= latest)
        });
        let Some((header, entries)) = possible else {
            let at = if self.loose { up(now, self.own.slot) * self.own.slot } else { now };
            let (header, entries) = found.unwrap_or((self.own, Vec::new()));
            let total: i128 = entries.iter().map(|(_, count)| count).sum();
            self.header = self.join(header);
            self.header.horizon = self.header.horizon.max(at - now);
            self.entries = vec![(at, total.max(self.most))];
            return false;
        };
        self.entries =
            entries.into_iter().skip_while(|(at, _)| header.end_of(*at) <= now).collect();
        self.header = if self.entries.is_empty() { self.own } else { header };
        self.found = Some(text.to_owned()).filter(|_| !self.entries.is_empty());
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
        match self.entries.last_mut() {
            Some(last) if self.own.slot_of(last.0) >= self.own.slot_of(at) => {
                *last = (last.0.max(at), last.1 + cost);
            }
            _ => self.entries.push((at, cost)),
        }
        self.entries.last().unwrap().0 - self.now
    }

    fn refund(&mut self, charge: &Charge, mark: i128) -> i128 {
        self.found = None;
        let mark = charge.taken_at + mark;
        let index = self.entries.partition_point(|(at, _)| *at < mark);
        let Some(entry) = self.entries.get_mut(index) else { return 0 };
        if self.own.slot_of(entry.0) != self.own.slot_of(mark) {
            return 0;
        }
        let permits = charge.permits.min(entry.1);
        entry.1 -= permits;
        self.entries.retain(|(_, count)| *count > 0);
        permits
    }

    fn usage(&self) -> [i128; 2] {
        let room = (self.most - self.sum(self.now).0).max(0).min(self.room_in_slot(self.now));
        let Some((last, _)) = self.entries.last() else { return [0, room] };
        let has_begun = self.own.slot_of(*last) <= self.now;
        [(self.counts_until(*last) - self.now).max(0), if has_begun { room } else { 0 }]
    }

    fn text(&self) -> (String, i128) {
        let Header { slot, span, horizon } = self.header;
        let Some((last, _)) = self.entries.last() else { return ("-".to_owned(), 0) };
        let entries = self.entries.iter().map(|(at, count)| format!(" {at} {count}"));
        let text = format!("{slot} {span} {horizon}") + &entries.collect::<String>();
        (self.found.clone().unwrap_or(text), self.header.end_of(*last) - self.now)
    }
}
