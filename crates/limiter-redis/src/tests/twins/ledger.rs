//! The twin of sub-windows and the exact log, in the words of `functions/log.lua`.

use super::twin::{Charge, Twin, digits, up};
use crate::state::{self, Log};

/// A slot, a span and a horizon, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    slot: i128,
    span: i128,
    horizon: i128,
}

/// When the last permit of an entry was taken, its permits, and the total up to it.
type Entry = (i128, i128, i128);

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
    newest: Entry,
    /// The elements of the entries before the newest, the oldest first.
    older: Vec<String>,
}

/// No permits.
const FRESH: Entry = (0, 0, 0);

/// How many entries may be behind one to which permits come back.
const MOST_BEHIND: usize = 1_000;

impl Header {
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
        let [kind, quota, most, slots] = arguments.try_into().unwrap();
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
            newest: FRESH,
            older: Vec::new(),
        }
    }

    /// Returns the header, the newest entry and the older elements of a text.
    fn parse(text: &str) -> Option<(Header, Entry, Vec<String>)> {
        let mut elements = text.split(';');
        let log = Log::parse([elements.next()?])?;
        let [slot, span, horizon] = [log.slot, log.span, log.horizon].map(i128::from);
        let older = elements.map(str::to_owned).collect();
        Some((Header { slot, span, horizon }, numbers(log.newest), older))
    }

    /// Returns the first element.
    fn head(&self) -> String {
        let ((at, count, total), Header { slot, span, horizon }) = (self.newest, self.header);
        format!("{at} {count} {total} {slot} {span} {horizon}")
    }

    /// Returns the entry with a number: behind the older ones the newest. A damaged entry counts like all,
    /// as long as the newest.
    fn entry(&self, n: usize) -> Entry {
        let Some(older) = self.older.get(n - 1) else { return self.newest };
        let (at, _, total) = self.newest;
        let log = Log::parse([self.head().as_str(), older]);
        log.map_or((at, total, total), |log| numbers(log.older[0]))
    }

    /// Returns until when permits count that were taken at a moment, by a quota and by those that wrote.
    fn end(&self, by: Header, at: i128) -> i128 {
        by.end_of(at).min(self.header.end_of(at))
    }

    /// Returns the number of the first entry from the n-th on that was taken `since`, counts after a moment
    /// and has a total of at least `least`.
    fn find(&self, by: Header, n: usize, since: i128, moment: i128, least: i128) -> usize {
        let is_found = |n| {
            let (at, _, total) = self.entry(n);
            at >= since && total >= least && self.end(by, at) > moment
        };
        let (mut low, mut high) = (n, self.older.len() + 1);
        while low < high {
            let middle = usize::midpoint(low, high);
            if is_found(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// Returns how many permits count after a moment that were taken `since`, and their first entry.
    fn counted(&self, since: i128, moment: i128) -> (i128, usize) {
        let n = self.find(self.own, 1, since, moment, 0);
        let (at, count, total) = self.entry(n);
        let counts = at >= since && self.end(self.own, at) > moment;
        (if counts { self.newest.2 - total + count } else { 0 }, n)
    }

    /// Returns the first moment from one on at which at most `room` permits count that were taken `since`.
    fn room(&self, since: i128, room: i128, from: i128) -> i128 {
        let (counted, n) = self.counted(since, from);
        if counted <= room {
            return from;
        }
        let (at, ..) = self.entry(self.find(self.own, n, 0, 0, self.newest.2 - room));
        from.max(self.end(self.own, at))
    }

    fn ceiling(&self, slot: i128) -> i128 {
        let number = slot % self.slots;
        self.most * (number + 1) / self.slots - self.most * number / self.slots
    }

    /// Returns the header of entries that the quota and those of another header have to find.
    fn join(&self, header: Header) -> Header {
        Header {
            slot: if header.has_slots_of(&self.own) { self.own.slot } else { 1 },
            span: header.span.max(self.own.span),
            horizon: header.horizon.max(self.own.horizon),
        }
    }

    fn full(&mut self, found: Option<Header>) {
        let (_, count, total) = self.entry(1);
        let sum = found.map_or(0, |_| self.newest.2 - total + count).max(self.most);
        let at = if self.loose { up(self.now, self.own.slot) * self.own.slot } else { self.now };
        self.header = self.join(found.unwrap_or(self.own));
        self.header.horizon = self.header.horizon.max(at - self.now);
        (self.newest, self.older) = ((at, sum, sum), Vec::new());
    }
}

fn numbers(entry: state::Entry) -> Entry {
    (entry.at.into(), entry.count.into(), entry.total.into())
}

impl Twin for Ledger {
    fn read(&mut self, text: Option<&str>, now: i128) -> bool {
        (self.now, self.header, self.newest) = (now, self.own, FRESH);
        (self.found, self.older) = (None, Vec::new());
        self.header.horizon = 0;
        let Some(text) = text else { return true };
        let Some((header, newest, older)) = Self::parse(text) else {
            self.full(None);
            return false;
        };
        (self.header, self.newest, self.older) = (header, newest, older);
        if newest.0 > now + header.horizon.max(header.slot) {
            self.full(Some(header));
            return false;
        }
        if header.end_of(newest.0) <= now {
            (self.newest, self.older, self.header) = (FRESH, Vec::new(), self.own);
            self.header.horizon = 0;
            return true;
        }
        self.older.drain(..self.find(header, 1, 0, now, 0) - 1);
        self.found = Some(text.to_owned());
        true
    }

    fn fits(&self, cost: i128, from: i128) -> Option<i128> {
        let largest = if self.slots > 0 { up(self.most, self.slots) } else { self.most };
        if cost > largest {
            return None;
        }
        let at = self.room(0, self.most - cost, from).max(self.own.slot_of(self.newest.0));
        if self.slots == 0 {
            return Some(at);
        }
        let slot = at / self.own.slot;
        let room = self.ceiling(slot) - cost;
        if room >= 0 {
            let fits = self.room(slot * self.own.slot, room, at);
            if fits < (slot + 1) * self.own.slot {
                return Some(fits);
            }
        }
        let mut enough = (slot + 1..).filter(|slot| self.ceiling(*slot) >= cost);
        Some(enough.next().unwrap() * self.own.slot)
    }

    fn charge(&mut self, cost: i128, moment: i128) -> i128 {
        self.found = None;
        self.header = self.join(self.header);
        let (at, count, total) = self.newest;
        self.newest = (at.max(moment), count + cost, total + cost);
        if at > 0 && self.own.slot_of(at) < self.own.slot_of(moment) {
            self.older.push(format!("{at} {count} {total}"));
            self.newest.1 = cost;
        }
        self.newest.0 - self.now
    }

    fn refund(&mut self, charge: &Charge, mark: i128) -> (i128, bool) {
        self.found = None;
        let mark = charge.taken_at + mark;
        let n = self.find(self.own, 1, mark, 0, 0);
        let (at, count, _) = self.entry(n);
        let is_own = at >= mark && self.own.slot_of(at) == self.own.slot_of(mark);
        // A list is not changed if a whole charge has to come back and can't, so that is no test here.
        if !is_own || self.older.len() >= n + MOST_BEHIND {
            return (0, false);
        }
        let permits = charge.permits.min(count);
        for behind in n..=self.older.len() {
            let (at, count, total) = self.entry(behind);
            let count = if behind == n { count - permits } else { count };
            // The newest total is as before, so that the entries behind are read as before.
            self.older[behind - 1] = format!("{at} {count} {}", total - permits);
        }
        if n > self.older.len() {
            self.newest.1 -= permits;
        }
        self.newest.2 -= permits;
        while self.newest.1 == 0 && !self.older.is_empty() {
            self.newest = self.entry(self.older.len());
            self.older.pop();
        }
        (permits, permits == charge.cost)
    }

    fn usage(&self) -> [i128; 2] {
        let mut room = self.most - self.counted(0, self.now).0;
        if self.slots > 0 {
            let slot = self.now / self.own.slot;
            let in_slot = self.counted(slot * self.own.slot, self.now).0;
            room = room.min(self.ceiling(slot) - in_slot);
        }
        let has_begun = self.own.slot_of(self.newest.0) <= self.now;
        let reset = (self.end(self.own, self.newest.0) - self.now).max(0);
        [reset, if has_begun { room.max(0) } else { 0 }]
    }

    fn text(&self) -> (String, i128) {
        if self.newest.1 == 0 {
            return ("-".to_owned(), 0);
        }
        let older = self.older.iter().map(|element| format!(";{element}"));
        let text = self.head() + &older.collect::<String>();
        (self.found.clone().unwrap_or(text), self.header.end_of(self.newest.0) - self.now)
    }
}
