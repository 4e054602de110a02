//! One limit: the script that checks it, and its arguments.

use std::time::Duration;

use bytes::Bytes;
use limiter_core::{Algorithm, Cost, Limit};

use super::{
    Gcra, Script, Scripts,
    argument::{counted, micros, number},
};

/// A limit as scripts apply it.
#[derive(Clone, Debug)]
pub(crate) struct ScriptLimit {
    pub(super) kind: Kind,
    /// The numbers of GCRA, which replies with a debt.
    pub(super) gcra: Option<Gcra>,
    /// Its kind, its field or its pace, its permits, and three numbers, as the script `list` takes them.
    pub(super) words: [Bytes; 6],
    /// The arguments of its own script, before the cost.
    own: [Bytes; 4],
    /// The text that identifies its states.
    pub(super) identity: Bytes,
    /// Whether its own script can apply it: not if its permits are spread over slots.
    pub(super) has_own_script: bool,
    /// The most permits at once.
    pub(super) largest: u64,
    pub(super) longest_delay: Duration,
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
    /// Returns the script that checks limits of this kind.
    pub(super) const fn script(self, scripts: &Scripts) -> &Script {
        match self {
            Self::Gcra | Self::FineGcra => &scripts.gcra,
            Self::Fixed | Self::Aligned | Self::Counter => &scripts.window,
            Self::Loose | Self::Strict => &scripts.log,
        }
    }

    /// Returns the first argument of that script.
    pub(super) const fn head(self) -> Bytes {
        Bytes::from_static(match self {
            Self::Gcra => b"1",
            Self::FineGcra => b"10000",
            Self::Fixed => b"fixed",
            Self::Aligned => b"aligned",
            Self::Counter => b"counter",
            Self::Loose => b"loose",
            Self::Strict => b"strict",
        })
    }

    /// Returns the kind as other scripts take it.
    const fn word(self) -> Bytes {
        match self {
            Self::Gcra | Self::FineGcra => Bytes::from_static(b"gcra"),
            kind => kind.head(),
        }
    }

    /// Returns whether its states are lists, and not fields of the subject's hash.
    pub(super) const fn is_log(self) -> bool {
        matches!(self, Self::Loose | Self::Strict)
    }
}

impl ScriptLimit {
    pub(super) fn new(limit: &Limit, identity: &str) -> Self {
        let (permits, window) = (limit.quota().permits(), micros(limit.quota().window()));
        let horizon = micros(limit.horizon());
        match limit.algorithm() {
            Algorithm::Gcra | Algorithm::LeakyQueue { .. } => {
                Self::gcra(Gcra::new(limit), identity)
            }
            Algorithm::FixedWindow => {
                Self::window(Kind::Fixed, (permits, window, horizon), identity)
            }
            // A full count that replaces an impossible one fills the next window, too.
            Algorithm::AlignedWindow => Self {
                longest_delay: Duration::from_micros(horizon),
                ..Self::window(Kind::Aligned, (permits, window, horizon.max(window)), identity)
            },
            Algorithm::SlidingCounter => {
                Self::window(Kind::Counter, (permits, window, horizon), identity)
            }
            Algorithm::SlidingLog => {
                Self::log(Kind::Loose, (permits, 0), (1, window, horizon), identity)
            }
            Algorithm::SubWindows(slots) => {
                let number = u64::from(slots.number());
                let slot = window.div_ceil(number);
                let span = slot * (number + u64::from(!slots.is_loose()));
                let kind = if slots.is_loose() { Kind::Loose } else { Kind::Strict };
                let pace = if slots.is_paced() { number } else { 0 };
                Self::log(kind, (permits, pace), (slot, span, horizon), identity)
            }
        }
    }

    fn gcra(gcra: Gcra, identity: &str) -> Self {
        let Gcra { increment, burst, scale, .. } = gcra;
        let kind = if scale == 1 { Kind::Gcra } else { Kind::FineGcra };
        let texts = [burst, increment, gcra.reach(), scale].map(text);
        Self {
            gcra: Some(gcra),
            own: [
                identity.to_owned().into(),
                text(increment),
                text(gcra.capacity()),
                text(gcra.reach()),
            ],
            largest: burst,
            longest_delay: gcra.longest_delay(),
            ..Self::of(kind, identity, identity, texts)
        }
    }

    fn window(kind: Kind, (permits, length, horizon): (u64, u64, u64), identity: &str) -> Self {
        let [permits_text, length_text, ahead] =
            [permits, length, length + ahead(horizon)].map(text);
        let own =
            [identity.to_owned().into(), permits_text.clone(), length_text.clone(), ahead.clone()];
        Self {
            own,
            largest: permits,
            longest_delay: Duration::from_micros(horizon),
            ..Self::of(kind, identity, identity, [permits_text, length_text, ahead, text(0)])
        }
    }

    fn log(
        kind: Kind,
        (permits, pace): (u64, u64),
        (slot, span, horizon): (u64, u64, u64),
        identity: &str,
    ) -> Self {
        let own = [permits, slot, ahead(horizon).max(slot), span].map(text);
        Self {
            largest: permits.div_ceil(pace.max(1)),
            longest_delay: Duration::from_micros(horizon),
            has_own_script: pace == 0,
            own: own.clone(),
            ..Self::of(kind, &pace.to_string(), identity, own)
        }
    }

    fn of(kind: Kind, field: &str, identity: &str, numbers: [Bytes; 4]) -> Self {
        let [one, two, three, four] = numbers.clone();
        Self {
            kind,
            gcra: None,
            words: [kind.word(), field.to_owned().into(), one, two, three, four],
            own: numbers,
            identity: identity.to_owned().into(),
            has_own_script: true,
            largest: 0,
            longest_delay: Duration::ZERO,
        }
    }

    /// Adds the arguments of its own script for a check.
    pub(super) fn add_own_arguments(&self, cost: Cost, arguments: &mut Vec<Bytes>) {
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
}

/// Returns how far ahead of now a window can begin, or an entry be, under any quota with this horizon: horizons of one
/// length may differ by a part of 512, because they are promised permit by permit.
const fn ahead(horizon: u64) -> u64 {
    horizon + horizon / 512 + 1
}

fn text(number: u64) -> Bytes {
    number.to_string().into()
}
