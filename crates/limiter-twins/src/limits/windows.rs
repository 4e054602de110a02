//! Fixed windows, aligned windows and the sliding counter, by the core's transition.

use std::time::Duration;

use limiter_core::{
    Cost, Quota, Timestamp,
    algorithms::{
        self, Counts, Marks, Transition, Window,
        WindowKind::{self, Aligned, Sliding},
    },
};

use crate::{
    keyspace::{Keyspace, WrongType},
    limit::{Charge, Limit, Terms},
    text,
    units::{micros, moment, nanos, signed, time, unsigned},
};

/// The earliest time with as many digits as the present.
const EARLIEST: i64 = 1_000_000_000_000_000;
/// The shortest and the longest window.
const MIN_LENGTH: i64 = 1_000;
const MAX_LENGTH: i64 = 31_622_400_000_000;
/// How far ahead the end of a window may be.
const MAX_REACH: i64 = 189_734_400_000_000;
/// The most permits that a window counts.
const MAX_COUNT: i64 = 158_112_000_000_000;
/// The largest whole number up to which scripts count exactly.
const MAX_EXACT: u64 = 1 << 53;
/// The most windows of a key.
const MAX_WINDOWS: usize = 4;

/// A quota by windows, and the windows of a key.
#[derive(Clone, Debug)]
pub(crate) struct Windows {
    kind: WindowKind,
    algorithm: algorithms::Windows,
    /// ` length reach `, as it is written.
    quota: String,
    permits: u64,
    /// In microseconds.
    length: i64,
    reach: i64,
    now: i64,
    state: Counts,
    is_damaged: bool,
}

impl Windows {
    /// Returns the limit, `None` if the terms are invalid.
    pub(crate) fn new(kind: WindowKind, terms: Terms<'_>) -> Option<Self> {
        let [length, reach] = terms.numbers()?;
        let window = Duration::from_nanos(nanos(length));
        let horizon = Duration::from_nanos(nanos(reach.checked_sub(length)?));
        let algorithm =
            algorithms::Windows::new(kind, &Quota::new(terms.permits, window).ok()?, horizon);
        let (quota, state) = (terms.quota.to_owned(), Counts::default());
        (length == terms.number).then_some(Self {
            kind,
            algorithm,
            quota,
            permits: terms.permits,
            length,
            reach,
            now: 0,
            state,
            is_damaged: false,
        })
    }

    fn fades(&self) -> bool {
        self.kind == Sliding
    }

    fn at(&self) -> Timestamp {
        moment(self.now)
    }

    /// Returns the end of a window by default.
    fn end_of(&self, since: i64, length: i64) -> i64 {
        since + length - if self.kind == Aligned { since % length } else { 0 }
    }

    /// Returns the windows of a text, `None` if it is not a state.
    fn parse(&self, text: &str) -> Option<Counts> {
        let windows: Option<Vec<_>> = text.split(", ").map(|text| self.window(text)).collect();
        windows.filter(|windows| windows.len() <= MAX_WINDOWS).map(Counts::from_iter)
    }

    fn window(&self, text: &str) -> Option<Window> {
        let mut numbers = text::exact_numbers(text)?.into_iter();
        let [since, length, reach, current] =
            [numbers.next()?, numbers.next()?, numbers.next()?, numbers.next()?];
        let previous = if self.fades() { numbers.next()? } else { 0 };
        let is_valid = since >= EARLIEST
            && (MIN_LENGTH..=MAX_LENGTH.min(reach)).contains(&length)
            && reach <= MAX_REACH
            && current.max(previous) <= MAX_COUNT;
        if !is_valid {
            return None;
        }
        let shortest = numbers.next().unwrap_or(length);
        let end = numbers.next().unwrap_or_else(|| self.end_of(since, length));
        let window = Window {
            end: nanos(end),
            length: nanos(length),
            since: nanos(since),
            shortest: nanos(shortest),
            reach: nanos(reach),
            current: unsigned(current),
            previous: unsigned(previous),
        };
        // Numbers that follow from the others are left out.
        (self.text(&window) == text).then_some(window)
    }

    fn text(&self, window: &Window) -> String {
        let [since, length, end] = [window.since, window.length, window.end].map(micros);
        let [current, previous] = [window.current, window.previous].map(signed);
        let mut numbers = vec![since, length, micros(window.reach), current];
        numbers.extend(self.fades().then_some(previous));
        if window.shortest != window.length || end != self.end_of(since, length) {
            numbers.extend([micros(window.shortest), end]);
        }
        text::joined(numbers)
    }

    /// Reads the state of a key. Returns whether it is one window that this quota has left and that has begun, and
    /// whose permits fade by numbers that scripts count exactly.
    pub(crate) fn read_own(&mut self, space: &mut Keyspace, key: &[u8], now: i64) -> bool {
        (self.now, self.state, self.is_damaged) = (now, Counts::default(), false);
        match space.text(key) {
            Ok(None) => true,
            Ok(Some(text)) => {
                let own = str::from_utf8(text).ok().and_then(|text| self.own_window(text));
                self.state = own.into_iter().collect();
                own.is_some_and(|own| micros(own.since) <= now && self.is_exact(own))
            }
            Err(WrongType) => false,
        }
    }

    /// Returns the window of a text that is a time, this quota and the counts.
    fn own_window(&self, text: &str) -> Option<Window> {
        let (since, counts) = text.split_once(&self.quota)?;
        let since = text::time(since)?;
        let (current, previous) = match (text::numbers(counts)?.as_slice(), self.fades()) {
            (&[current], false) if current <= MAX_COUNT => (current, 0),
            (&[current, previous], true) => (current, previous),
            _ => return None,
        };
        let (length, end) = (nanos(self.length), nanos(self.end_of(since, self.length)));
        let (since, shortest, reach) = (nanos(since), length, nanos(self.reach));
        let [current, previous] = [current, previous].map(unsigned);
        Some(Window { end, length, since, shortest, reach, current, previous })
    }

    /// Returns how many permits of a counter are granted for later, if of those that are wanted so few are `granted` that the
    /// limit is used up, and after how many microseconds all fit in this window. They are more than `cost`.
    pub(crate) fn lease_ahead(
        &self,
        cost: u64,
        (wanted, granted): (u64, u64),
        little: i64,
    ) -> Option<(i64, i64)> {
        let few = unsigned(signed(wanted).min(little / 12));
        let ahead = few.checked_sub(granted).filter(|ahead| *ahead > cost)?;
        let (current, counted) = self.counted()?;
        let is_used_up = counted <= self.permits && counted + few > self.permits;
        if !self.fades() || !is_used_up || current + few >= self.permits {
            return None;
        }
        Some((signed(ahead), self.fits(few, self.now)? - self.now))
    }

    /// Returns how many permits were taken in the present window, and how many count now.
    fn counted(&self) -> Option<(u64, u64)> {
        let &Window { mut end, length, mut current, mut previous, .. } =
            self.state.windows().first()?;
        let now = nanos(self.now);
        if end <= now {
            (end, current, previous) = (end + length, 0, current);
        }
        let left = u128::from(end.checked_sub(now)?);
        let fading = (u128::from(previous) * left).div_ceil(length.into());
        Some((current, current + u64::try_from(fading).ok()?))
    }

    /// Returns whether the product of the permits that fade and the length is counted exactly.
    fn is_exact(&self, window: Window) -> bool {
        let Window { mut end, length, mut current, mut previous, .. } = window;
        if end <= nanos(self.now) {
            (end, current, previous) = (end + length, 0, current);
        }
        let fading = if end <= nanos(self.now) { 0 } else { current.max(previous) };
        !self.fades() || unsigned(self.length).saturating_mul(fading) <= MAX_EXACT
    }
}

impl Limit for Windows {
    fn command(&self) -> &'static str {
        "GET"
    }

    fn read(&mut self, space: &mut Keyspace, key: &[u8], now: i64) -> Result<(), WrongType> {
        (self.now, self.state) = (now, Counts::default());
        let Some(text) = space.text(key)? else {
            self.is_damaged = false;
            return Ok(());
        };
        let found = str::from_utf8(text).ok().and_then(|text| self.parse(text));
        // One that can't be read is an own window that ends too late.
        let (length, reach) = (nanos(self.length), nanos(self.reach));
        let (shortest, end) = (length, u64::MAX);
        let endless = || Window { end, length, since: 0, shortest, reach, current: 0, previous: 0 };
        self.state = found.unwrap_or_else(|| Counts::from_iter([endless()]));
        self.is_damaged = self.algorithm.advance(&mut self.state, moment(now));
        Ok(())
    }

    fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    fn promises(&self) -> bool {
        let is_alone = |window: &Window| window.length == nanos(self.length);
        // Without a horizon nothing is asked for later.
        self.state.windows().iter().all(is_alone)
            || !self.algorithm.longest_delay(&self.state, self.at()).is_zero()
    }

    fn fits(&self, cost: u64, from: i64) -> Option<i64> {
        let fits_from = |from| self.algorithm.fits_at(&self.state, nanos(from), cost).map(micros);
        // A fraction of a microsecond later, its own window may have ended.
        fits_from(fits_from(from)?)
    }

    fn most_chargeable(&self) -> u64 {
        self.algorithm.most_chargeable(&self.state, self.at())
    }

    fn charge(&mut self, cost: u64, at: i64) -> i64 {
        let Ok(cost) = Cost::new(cost) else { return 0 };
        let now = self.at();
        let marks = self.algorithm.charge(&mut self.state, now, moment(at), cost);
        micros(marks.first()) - self.now
    }

    fn refund(&mut self, charge: &Charge) -> (u64, bool) {
        let Ok(cost) = Cost::new(charge.cost) else { return (0, false) };
        let marks = Marks::one(nanos(charge.made + charge.mark));
        let (made, at) = (moment(charge.made), moment(charge.at));
        let found = algorithms::Charge { made, at, cost, marks };
        let back = self.algorithm.refundable(&self.state, self.at(), &found, charge.permits);
        let now = self.at();
        self.algorithm.give_back(&mut self.state, now, &found, charge.permits);
        (back.permits, back.is_whole)
    }

    fn usage(&self) -> [i64; 2] {
        let usage = self.algorithm.usage(&self.state, self.at());
        [time(usage.reset_after()), signed(usage.remaining())]
    }

    fn store(&self, space: &mut Keyspace, key: &[u8]) {
        let lasts = time(self.algorithm.fresh_after(&self.state, self.at()));
        let windows: Vec<_> = self.state.windows().iter().map(|it| self.text(it)).collect();
        if lasts == 0 {
            space.delete(key);
        } else {
            space.set(key, windows.join(", ").into(), Some(text::expiry(lasts)));
        }
    }
}
