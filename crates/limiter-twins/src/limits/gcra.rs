//! GCRA, in the ticks of the scripts: microseconds, or ten-thousandths of them.

use crate::{
    keyspace::{Keyspace, WrongType},
    limit::{Charge, Limit, Terms},
    text,
};

/// The longest increment, in ticks.
const MAX_INCREMENT: i128 = 31_622_400_000_000;
/// The largest debt, in microseconds.
const MAX_DEBT: i128 = 400_000_000_000_000;
/// The largest whole number up to which scripts count exactly.
const MAX_EXACT: i128 = 1 << 53;
/// The ticks of a microsecond where the increment has decimals.
const FINE: i128 = 10_000;

/// A quota by GCRA, and the debt of a key.
#[derive(Clone, Debug)]
pub(crate) struct Gcra {
    own: Quota,
    burst: i128,
    /// The largest debt of the quota, in ticks.
    reach: i128,
    now: i128,
    /// In the ticks of the quota that wrote it, by whose pace it drains.
    debt: i128,
    writer: Quota,
    is_damaged: bool,
}

/// What a state has of the quota that wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Quota {
    /// ` increment reach`, as it is written.
    text: String,
    /// In ticks.
    increment: i128,
    /// How many ticks a microsecond has.
    scale: i128,
}

/// Returns a word's ticks, and how many of them a microsecond has.
fn ticks(word: &str) -> Option<(i128, i128)> {
    let (whole, part) = word.split_once('.').unwrap_or((word, ""));
    let whole = i128::from(text::digits(whole)?);
    match part.len() {
        0 if !word.contains('.') => Some((whole, 1)),
        4 => Some((whole * FINE + i128::from(text::digits(part)?), FINE)),
        _ => None,
    }
}

/// Returns the debt of a state, the largest that its quota can have left, and that quota; `None` if the text is not
/// a state.
fn parse(text: &str, now: i128) -> Option<(i128, i128, Quota)> {
    let words: Vec<_> = text.split(' ').collect();
    let [tat, increment, reach] = words.try_into().ok()?;
    let has_all_digits = text::time(tat.split('.').next()?).is_some();
    let ((tat, scale), increment, reach) = (ticks(tat)?, ticks(increment)?, ticks(reach)?);
    let have_one_scale = (increment.1, reach.1) == (scale, scale);
    let (increment, reach) = (increment.0, reach.0);
    let is_valid = has_all_digits
        && have_one_scale
        && (1..=MAX_INCREMENT.min(reach)).contains(&increment)
        && reach <= MAX_EXACT.min(MAX_DEBT * scale);
    let quota = Quota { text: text.get(text.find(' ')?..)?.to_owned(), increment, scale };
    is_valid.then(|| ((tat - now * scale).max(0), reach, quota))
}

impl Gcra {
    /// Returns the limit, `None` if the terms are invalid.
    pub(crate) fn new(terms: Terms<'_>) -> Option<Self> {
        let increment = i128::from(terms.number);
        let scale = if terms.quota.contains('.') { FINE } else { 1 };
        let own = Quota { text: terms.quota.to_owned(), increment, scale };
        let (burst, writer) = (terms.permits.into(), own.clone());
        let (reach, _) = ticks(terms.quota.rsplit(' ').next()?)?;
        let is_valid = increment > 0;
        is_valid.then_some(Self { own, burst, reach, now: 0, debt: 0, writer, is_damaged: false })
    }

    /// Returns the debt of a whole burst, in ticks.
    pub(crate) const fn capacity(&self) -> i128 {
        self.burst * self.own.increment
    }

    /// Returns the debt in ticks, of the quota that wrote it.
    pub(crate) fn debt(&self) -> i64 {
        narrow(self.debt)
    }

    /// Reads the state of a key. Returns whether it is one that this quota leaves.
    pub(crate) fn read_own(&mut self, space: &mut Keyspace, key: &[u8], now: i64) -> bool {
        let is_own = match space.text(key) {
            Ok(text) => text.is_none_or(|text| self.has_written(text)),
            Err(WrongType) => false,
        };
        is_own && self.read(space, key, now).is_ok() && !self.is_damaged
    }

    /// Returns whether permits are reserved behind the debt of a whole burst.
    pub(crate) const fn has_reservations(&self) -> bool {
        self.debt > self.capacity()
    }

    /// Returns whether a text is a time and this quota.
    fn has_written(&self, text: &[u8]) -> bool {
        let tat = text.strip_suffix(self.own.text.as_bytes()).map(str::from_utf8);
        let tat = tat.and_then(Result::ok).map(|tat| (tat.split('.').next(), ticks(tat)));
        tat.is_some_and(|(whole, ticks)| {
            let has_all_digits = whole.is_some_and(|whole| text::time(whole).is_some());
            has_all_digits && ticks.is_some_and(|(_, scale)| scale == self.own.scale)
        })
    }

    /// Returns so many ticks in microseconds.
    pub(crate) fn micros(&self, ticks: i64) -> i64 {
        narrow(i128::from(ticks).div_euclid(self.own.scale))
    }

    /// Returns how many permits a lease has that lasts for `length` ticks, the cost if it is none, and charges
    /// them. It is charged for its end.
    pub(crate) fn lease(&mut self, cost: u64, wanted: u64, length: i64) -> u64 {
        let length = i128::from(length);
        let base = self.debt.max(length);
        let room = (self.capacity() - base).div_euclid(self.own.increment);
        let is_little = 2 * room * self.own.increment <= length;
        let granted = i128::from(wanted).min(if is_little { room } else { room.div_euclid(2) });
        let is_lease = granted > cost.into();
        let permits = granted.max(cost.into());
        self.debt = if is_lease { base } else { self.debt } + permits * self.own.increment;
        u64::try_from(permits).unwrap_or(cost)
    }

    /// Charges permits for later, if of those that are wanted so few are `granted` that the limit is used up. Returns how
    /// many, which are a lease of `length` ticks and more than `cost`, and after how many microseconds it begins.
    pub(crate) fn lease_ahead(
        &mut self,
        cost: u64,
        (wanted, granted): (u64, u64),
        length: i64,
    ) -> Option<(i64, i64)> {
        let increment = self.own.increment;
        let few = i128::from(wanted).min(i128::from(length).div_euclid(24 * increment));
        let ahead = few - i128::from(granted);
        let debt = self.debt + ahead * increment;
        let is_used_up = self.debt <= self.capacity() && debt > self.capacity();
        if ahead <= cost.into() || !is_used_up || debt > self.reach {
            return None;
        }
        self.debt = debt;
        Some((narrow(ahead), narrow(up(debt - self.capacity(), self.own.scale))))
    }

    /// Returns the debt at a moment in ticks of this quota.
    fn debt_at(&self, at: i128) -> i128 {
        let Quota { increment, scale, .. } = self.writer;
        let debt = (self.debt - (at - self.now) * scale).max(0);
        if self.writer == self.own { debt } else { up(debt * self.own.increment, increment) }
    }
}

impl Limit for Gcra {
    fn command(&self) -> &'static str {
        "GET"
    }

    fn read(&mut self, space: &mut Keyspace, key: &[u8], now: i64) -> Result<(), WrongType> {
        (self.now, self.debt, self.writer, self.is_damaged) =
            (now.into(), 0, self.own.clone(), false);
        let Some(text) = space.text(key)? else { return Ok(()) };
        match str::from_utf8(text).ok().and_then(|text| parse(text, now.into())) {
            None => (self.debt, self.is_damaged) = (self.capacity(), true),
            Some((0, ..)) => {}
            Some((debt, reach, writer)) => {
                self.is_damaged = debt > reach;
                let full = if writer == self.own { self.capacity() } else { reach };
                self.debt = if self.is_damaged { full } else { debt };
                self.writer = writer;
            }
        }
        Ok(())
    }

    fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    /// A foreign debt drains at its own pace until it is charged, so nothing is promised behind it.
    fn promises(&self) -> bool {
        self.writer == self.own
    }

    fn fits(&self, cost: u64, from: i64) -> Option<i64> {
        let room = self.burst - i128::from(cost);
        let excess = self.debt - room * self.writer.increment;
        let fits_at = self.now + up(excess, self.writer.scale);
        (room >= 0).then(|| narrow(fits_at).max(from))
    }

    fn most_chargeable(&self) -> u64 {
        let room = self.reach - self.debt_at(self.now);
        u64::try_from(room.div_euclid(self.own.increment)).unwrap_or(0)
    }

    fn charge(&mut self, cost: u64, at: i64) -> i64 {
        let (at, price) = (i128::from(at), self.own.increment * i128::from(cost));
        self.debt = (at - self.now) * self.own.scale + self.debt_at(at) + price;
        self.writer = self.own.clone();
        narrow(self.debt)
    }

    fn refund(&mut self, charge: &Charge) -> (u64, bool) {
        let Charge { at, made, length, .. } = *charge;
        let whole = self.own.increment * i128::from(charge.cost);
        let price = self.own.increment * i128::from(charge.permits.min(charge.cost));
        // What leases hold drains from their end on.
        let drains_until = self.now.max((charge.leases_end - length).into());
        let drained = if self.now < at.into() { 0 } else { drains_until - i128::from(at) };
        let mut given = price.min(whole - drained * self.own.scale).min(self.debt);
        if self.debt > self.capacity() {
            // Reservations behind the charge keep their moments.
            let mark = i128::from(charge.mark) - (self.now - i128::from(made)) * self.own.scale;
            given = given.min(price.min(self.capacity()) - (self.debt - mark));
        }
        if self.writer != self.own || given <= 0 {
            return (0, false);
        }
        self.debt -= given;
        (u64::try_from(up(given, self.own.increment)).unwrap_or(0), given == whole)
    }

    fn usage(&self) -> [i64; 2] {
        let left = self.burst - up(self.debt, self.writer.increment);
        [narrow(up(self.debt, self.writer.scale)), narrow(left.max(0))]
    }

    fn store(&self, space: &mut Keyspace, key: &[u8]) {
        let Quota { text: quota, scale, .. } = &self.writer;
        let (tat, fraction) = (self.now + self.debt / scale, self.debt % scale);
        let decimals = if *scale > 1 { format!(".{fraction:04}") } else { String::new() };
        let state = format!("{tat}{decimals}{quota}");
        if self.debt == 0 {
            space.delete(key);
        } else {
            let lasts = narrow(up(self.debt, *scale));
            space.set(key, state.into(), Some(text::expiry(lasts)));
        }
    }
}

/// Returns a / b rounded up.
const fn up(a: i128, b: i128) -> i128 {
    -(-a).div_euclid(b)
}

fn narrow(number: i128) -> i64 {
    i64::try_from(number).unwrap_or(if number < 0 { i64::MIN } else { i64::MAX })
}
