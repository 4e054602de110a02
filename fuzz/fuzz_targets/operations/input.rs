//! Random bytes as operations: common operations take few bytes.

use std::time::Duration;

use limiter_core::{Algorithm, Cost, Policy, Quota, Slots, Timestamp};

/// Bytes that are read one after the other. Missing bytes are zero.
pub struct Bytes<'a>(pub &'a [u8]);

#[derive(Debug)]
pub enum Operation {
    Check { by: By, cost: AnyCost },
    Reserve { by: By, cost: AnyCost, within: Duration },
    TakeUpTo { by: By, most: AnyCost },
    Charge { by: By, cost: AnyCost },
    Peek { by: By },
    Refund { receipt: usize, keep: u64 },
    Reset { by: By },
    WithPolicy { handle: u8, policy: Option<Policy> },
    Set { now: Timestamp },
    Advance { by: Duration },
    Back { by: Duration },
    Acquire { by: By, cost: AnyCost, within: Option<Duration> },
    Poll { waiter: usize },
    Drop { waiter: usize },
}

/// One of four keys, through one of the handles.
#[derive(Clone, Copy, Debug)]
pub struct By {
    pub key: u8,
    pub handle: u8,
}

#[derive(Clone, Copy, Debug)]
pub enum AnyCost {
    Permits(u64),
    /// Near the handle's limit, by this offset.
    Limit(i64),
}

impl Bytes<'_> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    /// Returns a small number, a power of two, one less than that, or any number.
    pub fn number(&mut self) -> u64 {
        match self.byte() {
            small @ 0..128 => small.into(),
            power @ 128..192 => 1 << (power - 128),
            power @ 192..255 => (1 << (power - 191)) - 1,
            255 => u64::from_le_bytes(std::array::from_fn(|_| self.byte())),
        }
    }

    fn nanos(&mut self) -> Duration {
        Duration::from_nanos(self.number())
    }

    /// Returns one to three algorithms.
    pub fn algorithms(&mut self) -> Vec<Algorithm> {
        let number = match self.byte() {
            0..160 => 1,
            160..220 => 2,
            220.. => 3,
        };
        (0..number).map(|_| self.algorithm()).collect()
    }

    fn algorithm(&mut self) -> Algorithm {
        match self.byte() % 9 {
            0..3 => Algorithm::Gcra,
            3 => Algorithm::LeakyQueue { depth: self.number() },
            4 => Algorithm::FixedWindow,
            5 => Algorithm::AlignedWindow,
            6 => Algorithm::SubWindows(self.slots()),
            7 => Algorithm::SlidingCounter,
            _ => Algorithm::SlidingLog,
        }
    }

    /// Returns an algorithm of the same family.
    fn variant(&mut self, algorithm: Algorithm) -> Algorithm {
        match algorithm {
            Algorithm::Gcra | Algorithm::LeakyQueue { .. } if self.byte() & 1 == 0 => algorithm,
            Algorithm::Gcra => Algorithm::LeakyQueue { depth: self.number() },
            Algorithm::LeakyQueue { .. } => Algorithm::Gcra,
            Algorithm::SubWindows(_) => Algorithm::SubWindows(self.slots()),
            other => other,
        }
    }

    fn slots(&mut self) -> Slots {
        let (number, counting) = (self.number() % u64::from(Slots::MAX), self.byte());
        let make = if counting & 1 == 0 || number == 0 { Slots::strict } else { Slots::loose };
        let slots = make(number as u32 + 1);
        if counting & 2 == 0 { slots } else { slots.paced() }
    }

    /// Returns a policy of limits of these algorithms' families, or `None` if it is invalid.
    pub fn policy(&mut self, name: &str, algorithms: &[Algorithm]) -> Option<Policy> {
        let mut limits = Vec::new();
        for (index, algorithm) in algorithms.iter().enumerate() {
            let algorithm = self.variant(*algorithm);
            let (permits, burst) = (self.number().max(1), self.byte());
            let quota = Quota::new(permits, self.window()).ok()?;
            let quota = if burst < 64 { quota.try_with_burst(burst.into()).ok()? } else { quota };
            limits.push(Policy::new(&format!("limit {index}"), algorithm, quota).ok()?);
        }
        let policy = match limits.as_slice() {
            [only] => only.clone(),
            _ => Policy::all_of(name, limits).ok()?,
        };
        match self.byte() {
            0..192 => Some(policy),
            192.. => policy.with_horizon(Duration::from_millis(self.number())).ok(),
        }
    }

    fn window(&mut self) -> Duration {
        let millis = match self.byte() {
            0 => 1,
            1 => 1_000,
            2 => 3_600_000,
            3 => 86_400_000,
            4 => 366 * 86_400_000,
            5..128 => self.number(),
            seconds => u64::from(seconds) * 1_000,
        };
        Duration::from_millis(millis)
    }

    pub fn operation(&mut self, algorithms: &[Algorithm]) -> Operation {
        match self.byte() % 18 {
            0..3 => Operation::Check { by: self.by(), cost: self.cost() },
            3..5 => Operation::Reserve { by: self.by(), cost: self.cost(), within: self.nanos() },
            5 => Operation::Peek { by: self.by() },
            6..8 => Operation::Refund { receipt: self.byte().into(), keep: self.number() },
            8 => Operation::Reset { by: self.by() },
            9 => {
                let handle = self.byte();
                Operation::WithPolicy { handle, policy: self.policy("handle", algorithms) }
            }
            10 => Operation::Set { now: Timestamp::from_nanos(self.number()) },
            11 => Operation::Advance { by: self.nanos() },
            12 => Operation::Back { by: self.nanos() },
            13 => {
                let (by, cost, within) = (self.by(), self.cost(), self.nanos());
                Operation::Acquire { by, cost, within: (!within.is_zero()).then_some(within) }
            }
            14 => Operation::TakeUpTo { by: self.by(), most: self.cost() },
            15 => Operation::Charge { by: self.by(), cost: self.cost() },
            16 => Operation::Poll { waiter: self.byte().into() },
            _ => Operation::Drop { waiter: self.byte().into() },
        }
    }

    fn by(&mut self) -> By {
        let byte = self.byte();
        By { key: byte & 3, handle: byte >> 2 }
    }

    fn cost(&mut self) -> AnyCost {
        match self.byte() {
            permits @ 0..128 => AnyCost::Permits(permits.into()),
            128..240 => AnyCost::Permits(self.number()),
            offset => AnyCost::Limit(i64::from(offset) - 247),
        }
    }
}

impl AnyCost {
    pub fn get(self, limit: u64) -> Cost {
        let permits = match self {
            Self::Permits(permits) => permits,
            Self::Limit(offset) => limit.saturating_add_signed(offset),
        };
        Cost::new(permits.max(1)).expect("at least one")
    }
}
