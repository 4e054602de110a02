//! One limit as scripts apply it: the script that checks it, its numbers as arguments, and what its replies mean.

use std::time::Duration;

use bytes::Bytes;
use limiter_core::{Algorithm, Cost, Limit, Usage};

use super::Scripts;
use crate::client::Script;

/// A limit as scripts apply it.
#[derive(Clone, Debug)]
pub(crate) struct ScriptLimit {
    pub(crate) kind: Kind,
    /// The numbers of GCRA, which replies with a debt.
    pub(crate) gcra: Option<Gcra>,
    /// Its kind, its field or its pace, its permits, and three numbers, as the script `list` takes them.
    pub(crate) words: [Bytes; 6],
    /// The arguments of its own script, before the cost.
    own: [Bytes; 4],
    /// The text that identifies its states.
    pub(crate) identity: Bytes,
    /// Whether its own script can apply it: not if its permits are spread over slots.
    pub(super) has_own_script: bool,
    /// The most permits at once.
    pub(crate) largest: u64,
    pub(crate) longest_delay: Duration,
    window: Duration,
}

/// How a script decides. Limits of one kind share a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// By GCRA, in microseconds.
    Gcra,
    /// By GCRA, in ten-thousandths of a microsecond.
    FineGcra,
    Fixed,
    Aligned,
    Counter,
    /// By a log, or sub-windows that count for no longer than the window.
    Loose,
    /// By sub-windows that count for one slot longer.
    Strict,
}

impl Kind {
    /// Returns the script that checks limits of this kind, and its first argument.
    pub(crate) fn script(self) -> (&'static Script, Bytes) {
        let Scripts { gcra, window, log, .. } = Scripts::shared();
        let (script, head) = match self {
            Self::Gcra => (gcra, "1"),
            Self::FineGcra => (gcra, "10000"),
            Self::Fixed => (window, "fixed"),
            Self::Aligned => (window, "aligned"),
            Self::Counter => (window, "counter"),
            Self::Loose => (log, "loose"),
            Self::Strict => (log, "strict"),
        };
        (script, Bytes::from_static(head.as_bytes()))
    }

    /// Returns whether its states are lists, and not fields of the subject's hash.
    pub(crate) const fn is_log(self) -> bool {
        matches!(self, Self::Loose | Self::Strict)
    }
}

impl ScriptLimit {
    pub(super) fn new(limit: &Limit, identity: &str) -> Self {
        let (permits, window) = (limit.quota().permits(), micros(limit.quota().window()));
        let horizon = micros(limit.horizon());
        let (kind, pace, numbers) = match limit.algorithm() {
            Algorithm::Gcra | Algorithm::LeakyQueue { .. } => {
                return Self::of_gcra(limit, identity);
            }
            Algorithm::FixedWindow => (Kind::Fixed, 0, [window, window + ahead(horizon), 0]),
            // A full count that replaces an impossible one fills the next window, too.
            Algorithm::AlignedWindow => {
                (Kind::Aligned, 0, [window, window + ahead(horizon.max(window)), 0])
            }
            Algorithm::SlidingCounter => (Kind::Counter, 0, [window, window + ahead(horizon), 0]),
            Algorithm::SlidingLog => (Kind::Loose, 0, [1, ahead(horizon), window]),
            Algorithm::SubWindows(slots) => {
                let number = u64::from(slots.number());
                let slot = window.div_ceil(number);
                let span = slot * (number + u64::from(!slots.is_loose()));
                let kind = if slots.is_loose() { Kind::Loose } else { Kind::Strict };
                let pace = if slots.is_paced() { number } else { 0 };
                (kind, pace, [slot, ahead(horizon).max(slot), span])
            }
        };
        let (permits_text, numbers) = (text(permits), numbers.map(text));
        let [length, most, span] = numbers.clone();
        let identity = Bytes::from(identity.to_owned());
        let (_, word) = kind.script();
        let (field, own) = match kind.is_log() {
            true => (text(pace), [permits_text.clone(), length, most, span]),
            false => (identity.clone(), [identity.clone(), permits_text.clone(), length, most]),
        };
        let [length, most, span] = numbers;
        Self {
            kind,
            gcra: None,
            words: [word, field, permits_text, length, most, span],
            own,
            identity,
            has_own_script: pace == 0,
            largest: permits.div_ceil(pace.max(1)),
            longest_delay: Duration::from_micros(horizon),
            window: Duration::from_micros(window),
        }
    }

    fn of_gcra(limit: &Limit, identity: &str) -> Self {
        let gcra = Gcra::new(limit);
        let Gcra { increment, burst, scale, horizon, .. } = gcra;
        let identity = Bytes::from(identity.to_owned());
        let [capacity, reach, increment, burst_text] =
            [gcra.capacity(), gcra.reach(), increment, burst].map(text);
        let word = Bytes::from_static(b"gcra");
        Self {
            kind: if scale == 1 { Kind::Gcra } else { Kind::FineGcra },
            gcra: Some(gcra),
            own: [identity.clone(), increment.clone(), capacity, reach.clone()],
            words: [word, identity.clone(), burst_text, increment, reach, text(scale)],
            identity,
            has_own_script: true,
            largest: burst,
            longest_delay: Duration::from_micros(horizon.div_ceil(scale)),
            window: limit.quota().window(),
        }
    }

    /// Adds the arguments of its own script for a check.
    pub(crate) fn add_own_arguments(&self, cost: Cost, arguments: &mut Vec<Bytes>) {
        match (&self.gcra, &self.own) {
            (Some(gcra), [field, price, capacity, most]) => {
                let price = match cost {
                    Cost::ONE => price.clone(),
                    _ => text(gcra.increment.saturating_mul(cost.get())),
                };
                arguments.extend([field.clone(), price, capacity.clone(), most.clone()]);
            }
            (None, own) => {
                arguments.extend(own.iter().cloned());
                arguments.push(number(counted(cost)));
            }
        }
    }

    /// Reads the time until it is fresh, and the permits that it has left.
    pub(crate) fn usage(&self, reset: i64, left: i64) -> Option<Usage> {
        let reset = Duration::from_micros(u64::try_from(reset).ok()?);
        Some(Usage::new(self.largest, u64::try_from(left).ok()?, reset))
    }

    /// Returns for how long no `cost` fits, which is more than what is left, if this usage says that: a counter's does not.
    pub(crate) fn wait_after(&self, usage: &Usage, cost: Cost) -> Option<Duration> {
        let reset = usage.reset_after();
        match &self.gcra {
            Some(gcra) => gcra.wait(micros(reset) * gcra.scale, cost.get()),
            None if matches!(self.kind, Kind::Fixed | Kind::Aligned) => {
                // A window that is reserved for later may have room when it opens.
                Some(if reset > self.window { reset - self.window } else { reset })
            }
            None => None,
        }
    }
}

/// Returns how far ahead of now a window can begin, or an entry be, under any quota with this horizon: horizons of one
/// length may differ by a part of 512, because they are promised permit by permit.
const fn ahead(horizon: u64) -> u64 {
    horizon + horizon / 512 + 1
}

fn text(number: u64) -> Bytes {
    number.to_string().into()
}

/// A debt that drains, in ticks: microseconds, or their ten-thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gcra {
    /// The ticks of a permit.
    pub(crate) increment: u64,
    pub(crate) burst: u64,
    /// How far above the capacity a debt may be, in ticks: whole microseconds, as delays are.
    pub(crate) horizon: u64,
    /// The ticks of a microsecond.
    pub(crate) scale: u64,
    /// The ticks in which a burst recovers, rounded up once: of all quotas that share a state, the same time.
    pub(crate) span: u64,
}

/// The ticks of a microsecond where the interval of a quota is not whole.
const FINE: u64 = 10_000;

impl Gcra {
    /// Returns the numbers of a limit.
    ///
    /// The interval is rounded up to a whole microsecond if that costs less than a thousandth of the
    /// rate, and otherwise to a ten-thousandth of one.
    pub(crate) fn new(limit: &Limit) -> Self {
        let (quota, permits) = (limit.quota(), u128::from(limit.quota().permits()));
        let window = quota.window().as_micros();
        let at_scale = |scale: u64| {
            let increment = whole((window * u128::from(scale)).div_ceil(permits));
            let horizon = match limit.algorithm() {
                Algorithm::LeakyQueue { depth } => depth.saturating_mul(increment).div_ceil(scale),
                _ => whole(limit.horizon().as_nanos().div_ceil(1_000)),
            };
            let horizon = horizon.saturating_mul(scale);
            let burst = quota.burst();
            let exact = quota.window().as_nanos() * u128::from(burst) * u128::from(scale);
            let span = whole(exact.div_ceil(permits * 1_000));
            Self { increment, burst, horizon, scale, span }
        };
        let coarse = at_scale(1);
        let lost = u128::from(coarse.increment) * permits - window;
        let fine = at_scale(FINE);
        // Beyond ten days a finer scale could not be counted.
        if lost * 1_000 < window || fine.reach() >= MAX_EXACT { coarse } else { fine }
    }

    pub(crate) const fn capacity(&self) -> u64 {
        self.burst.saturating_mul(self.increment)
    }

    /// Returns the largest debt of this quota.
    pub(crate) const fn reach(&self) -> u64 {
        self.capacity().saturating_add(self.horizon)
    }

    /// Returns the usage of a debt in these ticks.
    pub(crate) const fn usage(&self, debt: u64) -> Usage {
        let remaining = self.burst.saturating_sub(debt.div_ceil(self.increment));
        Usage::new(self.burst, remaining, Duration::from_micros(debt.div_ceil(self.scale)))
    }

    /// Returns for how long a debt leaves no room for a cost, `None` for ever.
    pub(crate) fn wait(&self, debt: u64, cost: u64) -> Option<Duration> {
        let room = self.burst.checked_sub(cost)?.saturating_mul(self.increment);
        Some(Duration::from_micros(debt.saturating_sub(room).div_ceil(self.scale)))
    }
}

fn whole(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// The largest number that scripts count exactly.
pub(crate) const MAX_EXACT: u64 = 1 << 53;

/// Returns a number as scripts count it exactly.
pub(crate) fn exact(number: u64) -> i64 {
    number.min(MAX_EXACT).cast_signed()
}

/// Returns a cost as scripts count it.
pub(crate) fn counted(cost: Cost) -> i64 {
    exact(cost.get())
}

/// Returns a time as scripts count it.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX)
}

/// Returns a number as an argument.
pub(crate) fn number(number: i64) -> Bytes {
    match number {
        -1 => Bytes::from_static(b"-1"),
        1 => Bytes::from_static(b"1"),
        _ => number.to_string().into(),
    }
}

/// Returns a time as an argument.
pub(crate) fn duration(time: Duration) -> Bytes {
    text(micros(time))
}
