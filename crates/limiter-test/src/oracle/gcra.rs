//! GCRA with quotas that take turns, as a model in ticks of a quarter of a nanosecond that do not wrap
//! around.

/// The ticks of a nanosecond, which is the unit of waits.
pub const NANO: u128 = 4;

/// A quota of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The ticks that one permit adds to a debt.
    pub increment: u128,
    /// The permits of a whole burst.
    pub burst: u128,
    /// How far ahead permits may be promised, in ticks.
    pub horizon: u128,
}

/// A key's state: when the debt is drained, and the quota that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// In ticks.
    pub tat: u128,
    /// The writer.
    pub writer: Quota,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The permits may be used at this tick.
    Admitted(u128),
    /// So many ticks to wait, `None` if the cost never fits.
    Refused(Option<u128>),
}

/// What a refund needs to know of a charge.
#[derive(Clone, Copy, Debug)]
pub struct Receipt {
    /// When the charge was made.
    pub made: u128,
    /// The moment that the charge was made for.
    pub at: u128,
    /// When the debt was drained after the charge.
    pub mark: u128,
    /// The permits that were charged.
    pub cost: u128,
    /// The quota that charged them.
    pub quota: Quota,
}

impl State {
    /// Returns whether its writer can have left it by `now`.
    #[must_use]
    pub const fn is_possible(&self, now: u128) -> bool {
        self.tat.saturating_sub(now) <= self.writer.reach()
    }
}

impl Quota {
    const fn capacity(&self) -> u128 {
        self.increment * self.burst
    }

    /// Returns the largest debt that this quota writes.
    const fn reach(&self) -> u128 {
        self.capacity() + self.horizon
    }

    /// Replaces an impossible state by a full debt, or by the largest that its writer can have left.
    fn made_possible(&self, found: State, now: u128) -> State {
        match found.writer {
            _ if found.is_possible(now) => found,
            writer if writer == *self => State { tat: now + self.capacity(), writer },
            writer => State { tat: now + writer.reach(), writer },
        }
    }

    /// Charges `cost` at `now` or up to `within` later.
    pub fn take(&self, state: &mut Option<State>, now: u128, cost: u128, within: u128) -> Outcome {
        let found = state.filter(|state| state.tat > now);
        let found = found.map(|found| self.made_possible(found, now));
        if found.is_some() {
            *state = found;
        }
        if cost > self.burst {
            return Outcome::Refused(None);
        }
        let room = self.capacity() - cost * self.increment;
        let debt = found.map_or(0, |state| state.tat - now);
        let foreign = found.filter(|state| state.writer != *self).map(|state| state.writer);
        let own_debt = match foreign {
            Some(writer) => (debt * self.increment).div_ceil(writer.increment),
            None => debt,
        };
        let wait = match foreign {
            _ if own_debt <= room => 0,
            Some(writer) => debt - room * writer.increment / self.increment,
            None => debt - room,
        };
        let wait = wait.next_multiple_of(NANO);
        if wait > 0 && (foreign.is_some() || wait > within.min(self.horizon)) {
            return Outcome::Refused(Some(wait));
        }
        let tat = now + own_debt.max(wait) + cost * self.increment;
        *state = Some(State { tat, writer: *self });
        Outcome::Admitted(now + wait)
    }

    /// Charges `cost` at `now` whether or not it fits, up to the reach, and returns how many permits were charged.
    pub fn charge(&self, state: &mut Option<State>, now: u128, cost: u128) -> u128 {
        let found = state.filter(|state| state.tat > now);
        let found = found.map(|found| self.made_possible(found, now));
        if found.is_some() {
            *state = found;
        }
        let debt = found.map_or(0, |found| {
            ((found.tat - now) * self.increment).div_ceil(found.writer.increment)
        });
        let permits = cost.min(self.reach().saturating_sub(debt) / self.increment);
        if permits > 0 {
            *state = Some(State { tat: now + debt + permits * self.increment, writer: *self });
        }
        permits
    }

    /// Returns how many permits are left at `now`.
    #[must_use]
    pub fn remaining(&self, state: &Option<State>, now: u128) -> u128 {
        let Some(state) = state.filter(|state| state.tat > now) else { return self.burst };
        let debt = ((state.tat - now) * self.increment).div_ceil(state.writer.increment);
        self.capacity().saturating_sub(debt) / self.increment
    }
}

impl Receipt {
    /// Gives back up to `permits` at `now`, and returns how many were returned.
    pub fn refund(&self, state: &mut Option<State>, now: u128, permits: u128) -> u128 {
        let Self { made, at, mark, cost, quota } = *self;
        let found = state.filter(|state| state.tat > now);
        let found = found.map(|found| quota.made_possible(found, now));
        if found.is_some() {
            *state = found;
        }
        let Some(found) = found.filter(|found| found.writer == quota && made <= now) else {
            return 0;
        };
        let (whole, debt) = (cost * quota.increment, found.tat - now);
        let price = permits.min(cost) * quota.increment;
        let left = whole.saturating_sub(now.saturating_sub(at));
        let mut back = price.min(left).min(debt);
        if debt > quota.capacity() {
            let most = price.min(quota.capacity());
            back = back.min(most.saturating_sub(found.tat.saturating_sub(mark)));
        }
        if now < at && back < whole {
            // A part of a reservation for later stays.
            return 0;
        }
        *state = Some(State { tat: found.tat - back, ..found });
        // One that has partly recovered counts as one.
        back.div_ceil(quota.increment)
    }
}
