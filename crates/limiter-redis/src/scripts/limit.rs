//! One limit: its family of scripts, and its arguments.

use std::time::Duration;

use bytes::Bytes;
use limiter_core::{Algorithm, Limit};

use super::{
    Gcra, Script, Scripts,
    argument::{MAX_EXACT, micros},
};

/// A limit as scripts apply it.
#[derive(Clone, Debug)]
pub(crate) struct ScriptLimit {
    family: Family,
    /// The numbers of GCRA, which replies with a debt.
    pub(super) gcra: Option<Gcra>,
    /// Its kind, its quota as a state has it, its permits, and a number: the increment, the length of
    /// a window, or the slots that a paced window spreads its permits over.
    pub(crate) arguments: [Bytes; 4],
    /// Whether the script of its family can apply it.
    has_own_script: bool,
    /// The most permits at once.
    pub(super) largest: u64,
    pub(super) longest_delay: Duration,
}

/// The limits that share a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Gcra,
    Window,
    Counter,
    Log,
}

impl Family {
    /// Returns the script that checks keys by limits of this family.
    pub(super) const fn script(self, scripts: &Scripts) -> &Script {
        match self {
            Self::Gcra => &scripts.gcra,
            Self::Window => &scripts.window,
            Self::Counter => &scripts.counter,
            Self::Log => &scripts.log,
        }
    }
}

impl ScriptLimit {
    pub(super) fn new(limit: &Limit) -> Self {
        let (quota, horizon) = (limit.quota(), micros(limit.horizon()));
        let (window, permits) = (micros(quota.window()), quota.permits());
        let of = |family, kind: &str, text: String, number: u64| Self {
            family,
            gcra: None,
            arguments: [kind.to_owned(), text, permits.to_string(), number.to_string()]
                .map(Bytes::from),
            has_own_script: true,
            largest: permits,
            longest_delay: Duration::from_micros(horizon),
        };
        let windows =
            |family, kind| of(family, kind, format!(" {window} {} ", window + horizon), window);
        let log = |slot, span: u64, kind, pace: u64| Self {
            largest: permits.div_ceil(pace.max(1)),
            has_own_script: pace == 0,
            ..of(Family::Log, kind, format!(" {slot} {span} {horizon}"), pace)
        };
        match limit.algorithm() {
            Algorithm::FixedWindow => windows(Family::Window, "fixed"),
            Algorithm::AlignedWindow => windows(Family::Window, "aligned"),
            Algorithm::SlidingCounter => Self {
                // Its script multiplies them.
                has_own_script: permits.saturating_mul(window) <= MAX_EXACT,
                ..windows(Family::Counter, "counter")
            },
            Algorithm::SlidingLog => log(1, window, "loose", 0),
            Algorithm::SubWindows(slots) => {
                let number = u64::from(slots.number());
                let slot = window.div_ceil(number);
                let span = slot * (number + u64::from(!slots.is_loose()));
                let kind = if slots.is_loose() { "loose" } else { "strict" };
                log(slot, span, kind, if slots.is_paced() { number } else { 0 })
            }
            Algorithm::Gcra | Algorithm::LeakyQueue { .. } => {
                let gcra = Gcra::new(limit);
                Self {
                    family: Family::Gcra,
                    gcra: Some(gcra),
                    arguments: gcra.arguments().map(Bytes::from),
                    has_own_script: true,
                    largest: quota.burst(),
                    longest_delay: gcra.longest_delay(),
                }
            }
        }
    }

    /// Returns the arguments of its family's script, `None` if only the script `policy` can apply the limit: paced
    /// slots, and a counter whose numbers are too large.
    pub(super) fn own_arguments(&self) -> Option<Vec<Bytes>> {
        let [kind, quota, permits, number] = self.arguments.clone();
        self.has_own_script.then(|| match self.family {
            Family::Gcra | Family::Counter => vec![quota, permits, number],
            // Windows begin at multiples of the last number.
            Family::Window if kind == "aligned" => vec![quota, permits, number.clone(), number],
            Family::Window => vec![quota, permits, number, Bytes::from_static(b"1")],
            Family::Log => vec![quota, permits],
        })
    }

    pub(super) const fn family(&self) -> Family {
        self.family
    }
}
