//! Windows over a log of all that was ever admitted.

use limiter_core::{Algorithm, Cost, Limit, Slots, Timestamp};

/// A window of one algorithm, by its definition, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Model {
    algorithm: Algorithm,
    limit: u128,
    window: u128,
    log: Vec<(u128, u128)>,
    /// When the windows began that follow each other since the key was fresh.
    began: u128,
}

impl Model {
    /// Returns the model of a limit with windows, `None` for the others.
    #[must_use]
    pub fn new(limit: &Limit) -> Option<Self> {
        let algorithm = limit.algorithm();
        let is_rate = matches!(algorithm, Algorithm::Gcra | Algorithm::LeakyQueue { .. });
        (!is_rate).then(|| Self {
            algorithm,
            limit: limit.quota().permits().into(),
            window: limit.quota().window().as_nanos(),
            log: Vec::new(),
            began: 0,
        })
    }

    /// Returns whether `cost` fits at `now`, which is no earlier than what was taken.
    #[must_use]
    pub fn fits(&self, now: Timestamp, cost: Cost) -> bool {
        self.has_room(now, cost.get())
    }

    /// Returns whether more than the limit counts at `now`, so that nothing is charged in any case.
    #[must_use]
    pub fn is_overshot(&self, now: Timestamp) -> bool {
        !self.has_room(now, 0)
    }

    fn has_room(&self, now: Timestamp, cost: u64) -> bool {
        let (now, cost) = (u128::from(now.as_nanos()), u128::from(cost));
        let Self { limit, window, began, .. } = *self;
        match self.algorithm {
            Algorithm::FixedWindow => {
                let taken = if now < began + window { self.taken(|at| at >= began) } else { 0 };
                taken + cost <= limit
            }
            Algorithm::AlignedWindow => {
                self.taken(|at| at / window == now / window) + cost <= limit
            }
            Algorithm::SlidingCounter => {
                let (current, previous) = self.two_windows(now);
                let passed = now.saturating_sub(began) % window;
                previous * (window - passed) + (current + cost) * window <= limit * window
            }
            Algorithm::SlidingLog => self.taken(|at| at + window > now) + cost <= limit,
            Algorithm::SubWindows(slots) => self.fits_in_slots(slots, now, cost),
            _ => false,
        }
    }

    /// Takes `cost` at `now`.
    pub fn take(&mut self, now: Timestamp, cost: Cost) {
        let at = u128::from(now.as_nanos());
        let begins = match self.algorithm {
            Algorithm::FixedWindow => self.log.is_empty() || at >= self.began + self.window,
            Algorithm::SlidingCounter => self.two_windows(at) == (0, 0),
            _ => false,
        };
        if begins {
            self.began = at;
        }
        self.log.push((at, cost.get().into()));
    }

    fn taken(&self, counts: impl Fn(u128) -> bool) -> u128 {
        self.log.iter().filter(|(at, _)| counts(*at)).map(|(_, cost)| cost).sum()
    }

    /// Returns what was taken in the window of `now` and in the one before, counted since the key
    /// was fresh.
    fn two_windows(&self, now: u128) -> (u128, u128) {
        let window_of = |at: u128| at.saturating_sub(self.began) / self.window;
        let own = window_of(now);
        let since = |at: u128| at >= self.began;
        let current = self.taken(|at| since(at) && window_of(at) == own);
        let previous = self.taken(|at| since(at) && window_of(at) + 1 == own);
        (current, previous)
    }

    fn fits_in_slots(&self, slots: Slots, now: u128, cost: u128) -> bool {
        let number = u128::from(slots.number());
        let slot = (self.window / 1_000).div_ceil(number) * 1_000;
        let counting = if slots.is_loose() { number } else { number + 1 };
        let own = now / slot;
        let in_window = self.taken(|at| at / slot + counting > own);
        let in_slot = self.taken(|at| at / slot == own);
        let index = own % number;
        let ceiling = (index + 1) * self.limit / number - index * self.limit / number;
        // A ceiling keeps nothing from being charged that does not have to fit.
        let fits_in_slot = cost == 0 || !slots.is_paced() || in_slot + cost <= ceiling;
        in_window + cost <= self.limit && fits_in_slot
    }
}
