//! The quotas whose debts are stored in words, each by a number of 16 bits.

use std::{
    collections::HashMap,
    sync::{OnceLock, PoisonError, RwLock},
};

use foldhash::fast::RandomState;

use crate::{Error, ErrorKind, KnownQuotas, algorithms::Writer};

/// The number of a quota in one limiter, from 1 on. The number 0 marks a slot that was never used.
pub(crate) type Number = u16;

type Numbers = HashMap<Writer, Number, RandomState>;

/// The quotas of one limiter, by number.
///
/// A number is given once and stays its quota's as long as the limiter exists, so a quota is read
/// without a lock.
pub(crate) struct Quotas {
    /// That of the number 1, apart so that a limiter of one quota allocates nothing for the others.
    first: Writer,
    /// Part `n` has the quotas of the numbers from `4^n` on, up to the next part.
    parts: [OnceLock<Box<[OnceLock<Writer>]>>; Number::BITS as usize / 2],
    numbers: RwLock<Numbers>,
}

impl Quotas {
    pub(crate) const FIRST: Number = 1;

    pub(crate) fn new(first: Writer) -> Self {
        Self { first, parts: Default::default(), numbers: RwLock::default() }
    }

    /// Returns the quota of a number that was read from a slot; without one, a quota that owes nothing.
    pub(crate) fn get(&self, number: Number) -> Writer {
        if number == Self::FIRST {
            return self.first;
        }
        let quota = place_of(number)
            .and_then(|(part, index)| self.parts.get(part)?.get()?.get(index)?.get());
        quota.copied().unwrap_or_default()
    }

    /// Returns the number of a quota, which gets one if it is new.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::TooManyQuotas`] if all numbers are given.
    pub(crate) fn number(&self, quota: Writer) -> Result<Number, Error> {
        if quota == self.first {
            return Ok(Self::FIRST);
        }
        let numbers = self.numbers.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = numbers.get(&quota) {
            return Ok(*number);
        }
        drop(numbers);
        let mut numbers = self.numbers.write().unwrap_or_else(PoisonError::into_inner);
        let next = numbers.len() + usize::from(Self::FIRST) + 1;
        match (numbers.get(&quota), Number::try_from(next)) {
            (Some(number), _) => Ok(*number),
            (None, Ok(next)) => {
                self.insert(next, quota);
                numbers.insert(quota, next);
                Ok(next)
            }
            (None, Err(_)) => Err(too_many()),
        }
    }

    /// Returns how many quotas have a number, and how many there can be.
    pub(crate) fn known(&self) -> KnownQuotas {
        let others = self.numbers.read().unwrap_or_else(PoisonError::into_inner).len();
        KnownQuotas { known: others + 1, capacity: Number::MAX.into() }
    }

    fn insert(&self, number: Number, quota: Writer) {
        let place = place_of(number).and_then(|(part, index)| {
            let new_part = || (0..3 << (2 * part)).map(|_| OnceLock::new()).collect();
            self.parts.get(part)?.get_or_init(new_part).get(index)
        });
        if let Some(place) = place {
            place.get_or_init(|| quota);
        }
    }
}

/// Returns the part of a number and its place there.
fn place_of(number: Number) -> Option<(usize, usize)> {
    let part = number.checked_ilog2()? / 2;
    Some((part as usize, usize::from(number) - (1 << (2 * part))))
}

fn too_many() -> Error {
    Error::new(
        ErrorKind::TooManyQuotas,
        "too many quotas: a limiter in memory knows 65,535 different quotas in its life; build it with \
         wide states for more",
    )
}
