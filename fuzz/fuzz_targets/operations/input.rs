//! What the bytes mean: few of them for what is common, so that random ones say a lot.

use std::time::Duration;

use limiter_core::{
    Cost, Kind, Policy, Quota, Timestamp,
    algorithm::{Slots, Start},
};

/// Bytes that are read one after the other. Those that are missing are zero.
pub struct Bytes<'a>(pub &'a [u8]);

#[derive(Debug)]
pub enum Operation {
    TryAcquire { who: Who, cost: AnyCost },
    Reserve { who: Who, cost: AnyCost, within: Duration },
    Peek { who: Who },
    Refund { tier: u8, receipt: usize, keep: u64 },
    Reset { who: Who },
    Replace { policy: Option<Policy> },
    Set { now: Timestamp },
    Advance { by: Duration },
    Back { by: Duration },
    Acquire { who: Who, cost: AnyCost, within: Option<Duration> },
    Poll { waiter: usize },
    Drop { waiter: usize },
}

/// One of four keys, by one of the tiers.
#[derive(Clone, Copy, Debug)]
pub struct Who {
    pub key: u8,
    pub tier: u8,
}

#[derive(Clone, Copy, Debug)]
pub enum AnyCost {
    Permits(u64),
    /// Around the most that can be taken at once.
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

    /// Small, a power of two, one less than that, or any.
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

    /// One to three kinds of limits.
    pub fn kinds(&mut self) -> Vec<Kind> {
        let number = match self.byte() {
            0..160 => 1,
            160..220 => 2,
            220.. => 3,
        };
        (0..number).map(|_| self.kind()).collect()
    }

    fn kind(&mut self) -> Kind {
        match self.byte() % 9 {
            0 => Kind::Gcra,
            1 => Kind::TokenBucket,
            2 => Kind::LeakyBucket,
            3 => Kind::LeakyQueue { depth: self.number() },
            4 => Kind::FixedWindow(Start::FirstUse),
            5 => Kind::FixedWindow(Start::Aligned),
            6 => Kind::SubWindows(self.slots()),
            7 => Kind::SlidingCounter,
            _ => Kind::SlidingLog,
        }
    }

    fn slots(&mut self) -> Slots {
        let (number, counting) = (self.number() % u64::from(Slots::MAX), self.byte());
        let make = if counting & 1 == 0 { Slots::strict } else { Slots::loose };
        let slots = make(number as u32 + 1).expect("the number is within bounds");
        if counting & 2 == 0 { slots } else { slots.paced() }
    }

    /// A policy of limits of these kinds, with the tiers that go with it; none if it is refused.
    pub fn policy(&mut self, kinds: &[Kind]) -> Option<Policy> {
        let tiers = self.byte() % 3;
        let policy = self.tier("p", kinds);
        (0..tiers).fold(policy, |policy, index| {
            let tier = self.tier(&format!("t{index}"), kinds)?;
            policy?.with_tier(tier).ok()
        })
    }

    fn tier(&mut self, name: &str, kinds: &[Kind]) -> Option<Policy> {
        let mut permits: Vec<u64> = kinds.iter().map(|_| self.number().max(1)).collect();
        let mut windows: Vec<Duration> = kinds.iter().map(|_| self.window()).collect();
        // As several limits have to be: the longer the window, the more permits.
        permits.sort_unstable();
        windows.sort_unstable();
        let mut limits = Vec::new();
        for ((kind, permits), window) in kinds.iter().zip(permits).zip(windows) {
            let burst = self.byte();
            let quota = Quota::per(permits, window).ok()?;
            let quota = if burst < 64 { quota.with_burst(burst.into()).ok()? } else { quota };
            limits.push((kind, quota));
        }
        if let [(kind, quota)] = limits.as_slice() {
            return Policy::new(name, **kind, *quota).ok();
        }
        let limits = limits.iter().enumerate();
        let limits = limits
            .map(|(index, (kind, quota))| Policy::new(&format!("{name}{index}"), **kind, *quota));
        Policy::several(name, limits.collect::<Result<Vec<_>, _>>().ok()?).ok()
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

    pub fn operation(&mut self, kinds: &[Kind]) -> Operation {
        match self.byte() % 16 {
            0..3 => Operation::TryAcquire { who: self.who(), cost: self.cost() },
            3..5 => Operation::Reserve { who: self.who(), cost: self.cost(), within: self.nanos() },
            5 => Operation::Peek { who: self.who() },
            6..8 => {
                let (tier, receipt) = (self.byte(), self.byte().into());
                Operation::Refund { tier, receipt, keep: self.number() }
            }
            8 => Operation::Reset { who: self.who() },
            9 => Operation::Replace { policy: self.policy(kinds) },
            10 => Operation::Set { now: Timestamp::from_nanos(self.number()) },
            11 => Operation::Advance { by: self.nanos() },
            12 => Operation::Back { by: self.nanos() },
            13 => {
                let (who, cost, within) = (self.who(), self.cost(), self.nanos());
                Operation::Acquire { who, cost, within: (!within.is_zero()).then_some(within) }
            }
            14 => Operation::Poll { waiter: self.byte().into() },
            _ => Operation::Drop { waiter: self.byte().into() },
        }
    }

    fn who(&mut self) -> Who {
        let byte = self.byte();
        Who { key: byte & 3, tier: byte >> 2 }
    }

    fn cost(&mut self) -> AnyCost {
        match self.byte() {
            permits @ 0..128 => AnyCost::Permits(permits.into()),
            128..240 => AnyCost::Permits(self.number()),
            around => AnyCost::Limit(i64::from(around) - 247),
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
