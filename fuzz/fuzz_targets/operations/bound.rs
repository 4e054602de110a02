//! What GCRA may admit in any trailing window, while several quotas take turns on one key.

use limiter_core::{Algorithm, Cost, Policy, Timestamp};

use crate::LATEST;

/// The admissions of four keys, and the quotas that made them.
///
/// A key is forgotten, and not checked any more, where admissions have no known moment, and after
/// resets and steps back of the clock, each of which may give a new allowance or move a charge.
pub struct Bound {
    /// Whether the policies have one limit, by GCRA.
    applies: bool,
    largest_burst: u64,
    /// The highest rate, and the sum of all rates, in permits a nanosecond with 64 binary places.
    rates: [u128; 2],
    /// Whether permits were promised for later.
    promised: bool,
    /// `None` for a key that is not checked.
    admitted: [Option<Vec<(Timestamp, u64)>>; 4],
}

/// Where an admission is recorded.
#[derive(Clone, Copy)]
pub struct Admission {
    key: u8,
    index: usize,
}

impl Bound {
    pub fn new(policy: &Policy) -> Self {
        let applies = matches!(
            policy.limits(),
            [only] if matches!(only.algorithm(), Algorithm::Gcra | Algorithm::LeakyQueue { .. })
        );
        let admitted = [const { Some(Vec::new()) }; 4];
        let mut bound =
            Self { applies, largest_burst: 0, rates: [0, 0], promised: false, admitted };
        bound.add(policy);
        bound
    }

    /// Adds a policy that takes turns with the others.
    pub fn add(&mut self, policy: &Policy) {
        let quota = policy.limits()[0].quota();
        self.largest_burst = self.largest_burst.max(quota.burst());
        let rate = (u128::from(quota.permits()) << 64).div_ceil(quota.window().as_nanos());
        self.rates = [self.rates[0].max(rate), self.rates[1].saturating_add(rate)];
    }

    /// Permits are promised for later from now on.
    pub fn promise(&mut self) {
        self.promised = true;
    }

    pub fn admit(&mut self, key: u8, at: Timestamp, cost: Cost) -> Option<Admission> {
        if at > LATEST {
            self.forget(key);
        }
        let admitted = self.admitted[usize::from(key)].as_mut()?;
        admitted.push((at, cost.get()));
        Some(Admission { key, index: admitted.len() - 1 })
    }

    /// Permits that came back count as never taken.
    pub fn give_back(&mut self, Admission { key, index }: Admission, permits: u64) {
        if let Some(admitted) = &mut self.admitted[usize::from(key)] {
            admitted[index].1 -= permits;
        }
    }

    pub fn forget(&mut self, key: u8) {
        self.admitted[usize::from(key)] = None;
    }

    /// Checks that no trailing window of a key admitted more than the largest burst and what the
    /// highest rate gives, and one permit for the time that is rounded.
    ///
    /// Promised permits drain before they are due once another quota charges behind them, so with
    /// promises the rates add up.
    pub fn check(self) {
        if !self.applies {
            return;
        }
        let rate = self.rates[usize::from(self.promised)];
        for mut admitted in self.admitted.into_iter().flatten() {
            admitted.sort_unstable();
            for (index, (start, _)) in admitted.iter().enumerate() {
                let mut permits = 0;
                for (end, cost) in admitted.iter().skip(index).take(200) {
                    permits += u128::from(*cost);
                    let nanos = end.saturating_since(*start).as_nanos();
                    let refilled = (nanos * rate) >> 64;
                    let most = u128::from(self.largest_burst) + refilled + 1;
                    assert!(permits <= most, "{permits} from {start:?} to {end:?}: above {most}");
                }
            }
        }
    }
}
