//! The bounds that the algorithms publish, written anew: the most permits that count within a stretch of time.

use std::time::Duration;

use limiter_core::{Algorithm, Limit};

use crate::vocabulary::Micros;

/// The bound of one quota of a limit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// A burst, and what the rate gives in the stretch. A debt is at most that of the burst and the horizon.
    Rate { burst: u64, permits: u64, window: Micros, horizon: Micros },
    /// The limit in a window, and what counts beside it in a stretch of that length: the permits of the window or of the slot
    /// that has just ended. Slots may have ceilings.
    Window { limit: u64, beside: u64, window: Micros, form: Form, pace: Option<Pace> },
}

/// Slots that admit so many permits each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    slot: Micros,
    ceiling: u64,
}

/// In what the bounds of algorithms with windows differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Plain,
    /// A permit less than the limit of two windows.
    Counter,
    /// Windows of all lengths end at the same moments of each day.
    Aligned,
}

impl Bound {
    /// Returns the bound of a limit.
    pub(crate) fn of(limit: &Limit) -> Option<Self> {
        let (quota, window) = (limit.quota(), micros(limit.quota().window())?);
        Self::of_quota(limit, quota.permits(), quota.burst(), window)
    }

    /// Returns the bound of the share of it that each of so many processes has: every number divided by that and rounded
    /// down, or one permit in several windows.
    ///
    /// Clocks of processes differ in rate from the server's by less than a thousandth. So windows may be shorter by that,
    /// and a rate may give one permit more.
    pub(crate) fn of_share(limit: &Limit, processes: u64) -> Option<Self> {
        let quota = limit.quota();
        let part = |number: u64| (number / processes).max(1);
        let window = micros(quota.window())? * processes.div_ceil(quota.permits());
        let (permits, burst) = (part(quota.permits()), part(quota.burst()));
        Some(match Self::of_quota(limit, permits, burst, window)? {
            Self::Rate { burst, permits, window, horizon } => {
                let horizon = match limit.algorithm() {
                    // The depth is divided, too.
                    Algorithm::LeakyQueue { depth } => {
                        (depth / processes * window).div_ceil(permits)
                    }
                    _ => horizon,
                };
                Self::Rate { burst: burst + 1, permits, window, horizon }
            }
            Self::Window { limit, beside, window, form, pace } => {
                let shorter = |time: Micros| time - time / 1_000;
                let pace = pace.map(|pace| Pace { slot: shorter(pace.slot), ..pace });
                Self::Window { limit, beside, window: shorter(window), form, pace }
            }
        })
    }

    fn of_quota(limit: &Limit, permits: u64, burst: u64, window: Micros) -> Option<Self> {
        let (beside, form, pace) = match limit.algorithm() {
            Algorithm::Gcra | Algorithm::LeakyQueue { .. } => {
                let horizon = micros(limit.horizon())?;
                return Some(Self::Rate { burst, permits, window, horizon });
            }
            Algorithm::FixedWindow => (permits, Form::Plain, None),
            Algorithm::AlignedWindow => (permits, Form::Aligned, None),
            Algorithm::SlidingCounter => (permits, Form::Counter, None),
            Algorithm::SubWindows(slots) => {
                let number = u64::from(slots.number());
                let (slot, ceiling) = (window.div_ceil(number), permits.div_ceil(number));
                let pace = slots.is_paced().then_some(Pace { slot, ceiling });
                let beside = if slots.is_paced() { ceiling } else { permits };
                (if slots.is_loose() { beside } else { 0 }, Form::Plain, pace)
            }
            Algorithm::SlidingLog => (0, Form::Plain, None),
        };
        Some(Self::Window { limit: permits, beside, window, form, pace })
    }

    pub(crate) const fn window(self) -> Micros {
        match self {
            Self::Rate { window, .. } | Self::Window { window, .. } => window,
        }
    }

    /// Returns the longest stretch that is checked: a window, or two by GCRA. Longer ones consist of shorter ones.
    pub(crate) const fn longest(self) -> Micros {
        match self {
            Self::Rate { window, .. } => 2 * window,
            Self::Window { window, .. } => window,
        }
    }

    /// Returns the most permits that count in a stretch from the first of them to the last, both included, of so many
    /// microseconds, if requests that are in flight together are charged up to `overshoot` permits afterwards. `None` for
    /// a stretch that is too long: shorter ones are checked instead.
    pub(crate) fn within(self, stretch: Micros, overshoot: u64) -> Option<u64> {
        if stretch > self.longest() {
            return None;
        }
        match self {
            Self::Rate { burst, .. } => Some(burst + self.given(stretch) + self.debt(overshoot)),
            Self::Window { limit, window, form, pace, .. } if stretch + ROUNDED < window => {
                let permits = limit.saturating_add(overshoot) + self.beside(overshoot);
                let permits = permits - u64::from(form == Form::Counter);
                let paced = pace.map_or(u64::MAX, |pace| pace.within(stretch, overshoot));
                Some(permits.min(paced))
            }
            Self::Window { .. } => None,
        }
    }

    /// Returns what counts beside the limit in a stretch as long as the window, if requests are charged up to `overshoot`
    /// permits afterwards.
    pub(super) const fn beside(self, overshoot: u64) -> u64 {
        match self {
            Self::Window { beside: 0, .. } | Self::Rate { .. } => 0,
            Self::Window { beside, .. } => beside.saturating_add(overshoot),
        }
    }

    /// Returns what a rate gives in a stretch.
    pub(super) const fn given(self, stretch: Micros) -> u64 {
        match self {
            Self::Rate { permits, window, .. } => (stretch + ROUNDED) * permits / window,
            Self::Window { .. } => 0,
        }
    }

    /// Returns how far an overshoot can lift a debt above the burst: up to the horizon.
    pub(super) fn debt(self, overshoot: u64) -> u64 {
        match self {
            Self::Rate { permits, window, horizon, .. } => {
                overshoot.min((horizon * permits).div_ceil(window))
            }
            Self::Window { .. } => 0,
        }
    }
}

impl Pace {
    /// Returns the most permits of all slots of which a part is in a stretch.
    fn within(self, stretch: Micros, overshoot: u64) -> u64 {
        let slots = (stretch + ROUNDED) / self.slot + 2;
        slots.saturating_mul(self.ceiling.saturating_add(overshoot))
    }
}

/// Moments are rounded to microseconds twice, so a stretch may be two of them longer than it seems.
pub(super) const ROUNDED: Micros = 2;

fn micros(time: Duration) -> Option<Micros> {
    u64::try_from(time.as_micros()).ok()
}

#[cfg(test)]
mod tests {
    use limiter_core::Policy;

    use super::*;

    fn limit(text: &str) -> Limit {
        Policy::parse("limit", text).unwrap().limits()[0].clone()
    }

    /// Returns the most permits in a stretch of so many milliseconds.
    fn within(text: &str, millis: u64, overshoot: u64) -> u64 {
        Bound::of(&limit(text)).unwrap().within(1_000 * millis, overshoot).unwrap()
    }

    #[test]
    fn the_bounds_of_slots_depend_on_their_form() {
        for (form, bound, with_overshoot) in [
            ("5 slots", 12, 19),
            ("5 slots paced", 12, 19),
            ("5 slots loose", 24, 38),
            ("5 slots loose paced", 15, 29),
        ] {
            let text = format!("12/s by sub-windows {form}");
            assert_eq!(within(&text, 999, 0), bound, "{form}");
            assert_eq!(within(&text, 999, 7), with_overshoot, "{form}");
        }
    }

    #[test]
    fn a_paced_slot_has_a_ceiling() {
        let text = "12/s by sub-windows 5 slots paced";
        for (millis, bound) in [(0, 6), (199, 6), (200, 9), (399, 9), (400, 12)] {
            assert_eq!(within(text, millis, 0), bound, "{millis}");
        }
        assert_eq!(within(text, 0, 1), 8);
        let share = Bound::of_share(&limit(text), 4).unwrap();
        assert_eq!(share.within(0, 0), Some(2));
    }

    #[test]
    fn the_debt_of_a_queue_ends_with_its_depth_and_is_shared() {
        let queue = limit("5/s burst 2 by leaky-queue depth 12");
        for (bound, within_depth) in [
            (Bound::of(&queue), 2 + 12),
            // A permit in a second, and a permit more because clocks differ.
            (Bound::of_share(&queue, 3), 1 + 1 + 4),
            (Bound::of_share(&queue, 13), 1 + 1),
        ] {
            assert_eq!(bound.unwrap().within(0, 99), Some(within_depth));
        }
    }
}
