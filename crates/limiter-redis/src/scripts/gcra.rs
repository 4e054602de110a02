//! GCRA for one key: what `gcra.lua` is given, what its reply means, and its twin.

use limiter_core::{
    Cost, Decision, Error, Quota,
    algorithm::{Meter, Resolution},
};

/// The algorithm at the server's resolution: microseconds, with an exact remainder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gcra {
    meter: Meter,
}

impl Gcra {
    pub(crate) fn new(quota: &Quota) -> Result<Self, Error> {
        Ok(Self { meter: Meter::new(quota, Resolution::Micros)? })
    }

    /// Returns the script's `ARGV`: price, capacity, scale.
    pub(crate) fn arguments(&self, cost: Cost) -> [u64; 3] {
        let capacity = self.meter.capacity();
        // A cost that can never fit still has to be refused with the key's remaining permits.
        let price = self.meter.price(cost).unwrap_or(capacity + 1);
        [price, capacity, self.meter.ticks_per_unit()]
    }

    /// Returns what the script's reply means: a debt, positive if `cost` was admitted.
    pub(crate) const fn decision(&self, reply: i64, cost: Cost) -> Decision {
        if reply > 0 {
            self.meter.admitted(reply.unsigned_abs())
        } else {
            self.meter.refused(reply.unsigned_abs(), cost)
        }
    }
}

/// The twin: what `gcra.lua` does, in its words.
#[cfg(test)]
pub(crate) mod twin {
    use limiter_core::{Cost, Decision, Timestamp};

    use super::Gcra;

    /// Later than any server's clock can be.
    const BEYOND: u128 = 1 << 64;

    /// A key's theoretical arrival time in microseconds, with a remainder in ticks.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(crate) struct Tat {
        at: u128,
        rem: u128,
    }

    impl Gcra {
        pub(crate) fn decide(&self, state: &mut Tat, now: Timestamp, cost: Cost) -> Decision {
            let now = u128::from(now.as_nanos() / 1_000);
            let [price, capacity, scale] = self.arguments(cost).map(u128::from);

            // Advance.
            let Tat { mut at, mut rem } = *state;
            if rem >= scale {
                (at, rem) = (at + 1, 0);
            }
            let (mut debt, mut impossible) = (0, false);
            if at >= now {
                debt = (at - now) * scale + rem;
            }
            if debt > capacity {
                (debt, impossible) = (capacity, true);
            }

            // Decide.
            let admitted = debt + price <= capacity;

            // Commit.
            if admitted {
                debt += price;
            }
            if admitted || impossible {
                let rem = debt % scale;
                let drain = (debt - rem) / scale;
                *state = Tat { at: now + drain, rem };
            }
            let debt = i64::try_from(debt).unwrap();
            self.decision(if admitted { debt } else { -debt }, cost)
        }
    }

    impl Tat {
        /// Reads a state as the script does; one that can't be read lies beyond any policy.
        pub(crate) fn parse(state: &str) -> Self {
            let (at, rem) = state.split_once(':').unwrap_or((state, ""));
            let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
            if at.is_empty() || !digits(at) || !digits(rem) {
                return Self { at: BEYOND, rem: 0 };
            }
            let number = |text: &str| text.parse().unwrap_or(BEYOND).min(BEYOND);
            Self { at: number(at), rem: if rem.is_empty() { 0 } else { number(rem) } }
        }

        pub(crate) const fn has_remainder(&self) -> bool {
            self.rem > 0
        }

        /// Writes a state as the script does.
        pub(crate) fn format(&self) -> String {
            let Self { at, rem } = self;
            if *rem > 0 { format!("{at}:{rem}") } else { at.to_string() }
        }
    }
}
