//! GCRA with quotas of one span on one key, as a model in ticks of a quarter of a nanosecond that do not wrap
//! around. A key's state is the tick at which its debt is drained.

/// The ticks of a nanosecond, which is the unit of waits.
pub const NANO: u128 = 4;

/// A quota of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// The ticks that one permit adds to a debt.
    pub increment: u128,
    /// The permits of a whole burst.
    pub burst: u128,
    /// The time in which a burst recovers, rounded up once.
    pub span: u128,
    /// How far ahead permits may be promised, in ticks.
    pub horizon: u128,
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

impl Quota {
    const fn capacity(&self) -> u128 {
        self.increment * self.burst
    }

    /// Returns whether some quota of this span can have left a state by `now`.
    #[must_use]
    pub const fn is_possible(&self, tat: u128, now: u128) -> bool {
        let exact = self.span + self.horizon;
        tat.saturating_sub(now) <= exact + exact / 512 + 4_096
    }

    /// Replaces an impossible state by a full debt, and returns the debt.
    fn debt(&self, state: &mut Option<u128>, now: u128) -> u128 {
        if state.is_some_and(|tat| !self.is_possible(tat, now)) {
            *state = Some(now + self.capacity());
        }
        state.map_or(0, |tat| tat.saturating_sub(now))
    }

    /// Charges `cost` at `now` or up to `within` later.
    pub fn take(&self, state: &mut Option<u128>, now: u128, cost: u128, within: u128) -> Outcome {
        let debt = self.debt(state, now);
        if cost > self.burst {
            return Outcome::Refused(None);
        }
        let room = self.capacity() - cost * self.increment;
        let wait = debt.saturating_sub(room).next_multiple_of(NANO);
        if wait > within.min(self.horizon) {
            return Outcome::Refused(Some(wait));
        }
        *state = Some(now + debt.max(wait) + cost * self.increment);
        Outcome::Admitted(now + wait)
    }

    /// Charges `cost` at `now` whether or not it fits, up to a burst and the horizon, and returns how many permits were
    /// charged.
    pub fn charge(&self, state: &mut Option<u128>, now: u128, cost: u128) -> u128 {
        let debt = self.debt(state, now);
        let room = (self.capacity() + self.horizon).saturating_sub(debt);
        let permits = cost.min(room / self.increment);
        if permits > 0 {
            *state = Some(now + debt + permits * self.increment);
        }
        permits
    }

    /// Returns how many permits are left at `now`.
    #[must_use]
    pub fn remaining(&self, state: Option<u128>, now: u128) -> u128 {
        let debt = state.map_or(0, |tat| tat.saturating_sub(now));
        self.capacity().saturating_sub(debt) / self.increment
    }
}

impl Receipt {
    /// Gives back up to `permits` at `now`, and returns how many were returned.
    pub fn refund(&self, state: &mut Option<u128>, now: u128, permits: u128) -> u128 {
        let Self { made, at, mark, cost, quota } = *self;
        let debt = quota.debt(state, now);
        let (Some(tat), true) = (*state, made <= now) else { return 0 };
        let whole = cost * quota.increment;
        let price = permits.min(cost) * quota.increment;
        let left = whole.saturating_sub(now.saturating_sub(at));
        let mut back = price.min(left).min(debt);
        if debt > quota.span {
            let behind = tat.saturating_sub(mark);
            let most = if behind == 0 { quota.capacity() } else { quota.span };
            back = back.min(price.min(most).saturating_sub(behind));
        }
        if now < at && back < whole {
            // A part of a reservation for later stays.
            return 0;
        }
        *state = Some(tat - back);
        // One that has partly recovered counts as one.
        back.div_ceil(quota.increment)
    }
}
