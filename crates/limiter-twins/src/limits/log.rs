//! The log and sub-windows, by the core's transition.

use std::time::Duration;

use limiter_core::{
    Cost, Timestamp,
    algorithms::{self, Entries, Entry, Ledger, LogWriter, Marks, Span, Transition},
};

use crate::{
    keyspace::{Keyspace, WrongType},
    limit::{Charge, Limit, Terms},
    text,
    units::{micros, moment, nanos, signed, time, unsigned},
};

/// The longest time for which an entry counts.
const MAX_SPAN: i64 = 64_000_000_000_000;
/// How far ahead permits may be promised.
const MAX_HORIZON: i64 = 158_112_000_000_000;
/// The largest count or total: scripts count no more exactly.
const MAX_COUNT: i64 = 1 << 53;
/// The earliest time with as many digits as the present.
const EARLIEST: i64 = 1_000_000_000_000_000;
/// The most quotas of different lengths that one list keeps apart.
const MAX_WRITERS: usize = 4;

/// A quota by a log or by sub-windows, and the entries of a key.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    algorithm: Ledger,
    now: i64,
    /// The state without what has ended.
    state: Entries,
    /// The quotas that have charged the list, also those whose permits have ended, which only a charge removes.
    writers: Vec<LogWriter>,
    is_damaged: bool,
}

/// Returns an older entry, which was written as `at count`.
fn entry(text: &str) -> Option<Entry> {
    let at = text::time(text.split(' ').next()?)?;
    let [_, count] = text::numbers(text)?.try_into().ok()?;
    (count <= MAX_COUNT).then(|| Entry { at: nanos(at), count: unsigned(count) })
}

/// Returns a quota that has charged the list.
fn writer(numbers: &[i64]) -> Option<LogWriter> {
    let &[slot, span, horizon, newest] = numbers else { return None };
    let is_valid = slot > 0 && slot <= span && span <= MAX_SPAN && horizon <= MAX_HORIZON;
    let span = Span { slot: nanos(slot), length: nanos(span) };
    let (horizon, newest) = (nanos(horizon), nanos(newest));
    is_valid.then_some(LogWriter { span, horizon, newest })
}

/// Returns the entries of a list, the oldest first; `None` if it is not a state.
fn parse(list: &[Vec<u8>]) -> Option<Entries> {
    let texts: Option<Vec<_>> = list.iter().map(|it| str::from_utf8(it).ok()).collect();
    let texts = texts?;
    let (first, older) = texts.split_first()?;
    let mut parts = first.split(", ").map(text::exact_numbers);
    let numbers = parts.next()??;
    let (&[at, count, total, largest], rest) = numbers.split_first_chunk()?;
    let rest = (!rest.is_empty()).then(|| Some([rest, &[at]].concat()));
    let writers: Option<Vec<_>> = rest.into_iter().chain(parts).map(|it| writer(&it?)).collect();
    let writers = writers.filter(|all| (1..=MAX_WRITERS).contains(&all.len()))?;
    let newest = Entry { at: nanos(at), count: unsigned(count) };
    let older: Option<Vec<_>> = older.iter().map(|text| entry(text)).collect();
    let all = Entries::new(older?.into_iter().chain([newest]), writers, unsigned(largest));
    let is_valid = at >= EARLIEST && count <= total && total.max(largest) <= MAX_COUNT;
    (is_valid && head(&all, &newest) == *first).then_some(all)
}

/// Returns an entry as an element of a list.
fn element(entry: &Entry) -> String {
    text::joined([micros(entry.at), signed(entry.count)])
}

impl Log {
    /// Returns the limit, `None` if the terms are invalid.
    pub(crate) fn new(is_strict: bool, terms: Terms<'_>) -> Option<Self> {
        let [slot, span, horizon] = terms.numbers()?;
        let LogWriter { span, horizon, .. } = writer(&[slot, span, horizon, 0])?;
        let ledger = Ledger::of_span(terms.permits, span, Duration::from_nanos(horizon));
        let ledger = if is_strict { ledger.strict() } else { ledger };
        let slots = u64::try_from(terms.number).ok()?;
        let algorithm = if slots > 0 { ledger.paced(slots) } else { ledger };
        let (state, writers) = (Entries::default(), Vec::new());
        Some(Self { algorithm, now: 0, state, writers, is_damaged: false })
    }

    fn at(&self) -> Timestamp {
        moment(self.now)
    }
}

/// Returns the first element of a list.
fn head(entries: &Entries, newest: &Entry) -> String {
    let total: u64 = entries.iter().map(|entry| entry.count).sum();
    let head = format!("{} {total} {}", element(newest), entries.largest());
    let of = |it: &LogWriter| [it.span.slot, it.span.length, it.horizon].map(micros);
    if let [only] = entries.writers() {
        return format!("{head} {}", text::joined(of(only)));
    }
    let writers = entries.writers().iter();
    let of = |it| text::joined(of(it).into_iter().chain([micros(it.newest)]));
    [head].into_iter().chain(writers.map(of)).collect::<Vec<_>>().join(", ")
}

/// Returns the elements of a list.
fn list(entries: &Entries) -> Vec<Vec<u8>> {
    let mut older = entries.iter();
    let Some(newest) = older.next_back() else { return Vec::new() };
    let all = [head(entries, newest)].into_iter().chain(older.map(element));
    all.map(String::into_bytes).collect()
}

impl Limit for Log {
    fn command(&self) -> &'static str {
        "LRANGE"
    }

    fn read(&mut self, space: &mut Keyspace, key: &[u8], now: i64) -> Result<(), WrongType> {
        let list = space.list(key)?;
        // One that can't be read has an entry that is too late.
        let endless = || Entries::new([Entry { at: u64::MAX, count: 0 }], [], 0);
        let fresh = list.is_empty().then(Entries::default);
        self.state = fresh.or_else(|| parse(list)).unwrap_or_else(endless);
        (self.now, self.writers) = (now, self.state.writers().to_vec());
        self.is_damaged = self.algorithm.advance(&mut self.state, moment(now));
        Ok(())
    }

    fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    fn promises(&self) -> bool {
        true
    }

    fn fits(&self, cost: u64, from: i64) -> Option<i64> {
        let fits_at = self.algorithm.fits_at(&self.state, nanos(from), cost)?;
        Some(micros(fits_at).max(from))
    }

    fn most_chargeable(&self) -> u64 {
        self.algorithm.most_chargeable(&self.state, self.at())
    }

    fn charge(&mut self, cost: u64, at: i64) -> i64 {
        let Ok(cost) = Cost::new(cost) else { return 0 };
        let marks = self.algorithm.charge(&mut self.state, moment(self.now), moment(at), cost);
        micros(marks.first()) - self.now
    }

    fn refund(&mut self, charge: &Charge) -> (u64, bool) {
        let Ok(cost) = Cost::new(charge.cost) else { return (0, false) };
        let marks = Marks::one(nanos(charge.made + charge.mark));
        let (made, at, now) = (moment(charge.made), moment(charge.at), self.at());
        let found = algorithms::Charge { made, at, cost, marks };
        let back = self.algorithm.refundable(&self.state, now, &found, charge.permits);
        self.algorithm.give_back(&mut self.state, now, &found, charge.permits);
        (back.permits, back.is_whole)
    }

    fn usage(&self) -> [i64; 2] {
        let usage = self.algorithm.usage(&self.state, self.at());
        [time(usage.reset_after()), signed(usage.remaining())]
    }

    fn store(&self, space: &mut Keyspace, key: &[u8]) {
        let lasts = time(self.algorithm.fresh_after(&self.state, self.at()));
        space.set_list(key, list(&self.state));
        space.expire(key, text::expiry(lasts));
    }

    /// The list keeps its expiry.
    fn store_refunded(&self, space: &mut Keyspace, key: &[u8]) {
        let (entries, largest) = (self.state.iter().copied(), self.state.largest());
        space.set_list(key, list(&Entries::new(entries, self.writers.iter().copied(), largest)));
    }
}
