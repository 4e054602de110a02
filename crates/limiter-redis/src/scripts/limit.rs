//! One limit: by which form of script it is applied, and the arguments of that.

use std::time::Duration;

use limiter_core::{Algorithm, Cost, Limit};

use super::{Gcra, SCALED};

const GCRA: &str = concat!(include_str!("gcra/state.lua"), include_str!("gcra/take.lua"));
const WINDOW_STATE: &str = include_str!("window/state.lua");
const WINDOW: &str = include_str!("window/take.lua");
const COUNTER: &str = include_str!("window/counter.lua");
const LEDGER: &str = concat!(
    include_str!("ledger/state.lua"),
    include_str!("ledger/pace.lua"),
    include_str!("ledger/take.lua")
);
const LEDGER_GIVE: &str = include_str!("ledger/give.lua");
const LEDGER_TEXT: &str = include_str!("ledger/text.lua");
const CHECK: &str = include_str!("check.lua");

/// A limit as scripts apply it.
#[derive(Clone, Debug)]
pub(crate) struct Single {
    form: Form,
    /// The numbers of GCRA, which replies with a debt.
    pub(super) gcra: Option<Gcra>,
    /// The quota: its text in a state, two numbers, and the kind.
    pub(super) arguments: [String; 4],
    /// The most permits at once.
    pub(super) largest: u64,
    pub(super) longest_delay: Duration,
}

/// The form in which a script keeps a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Gcra,
    Window,
    SlidingCounter,
    Ledger,
}

/// The files of a form's scripts.
pub(super) struct Files {
    /// Checks, reservations and peeks.
    pub(super) check: &'static [&'static str],
    /// Refunds, if the general script can't read the form.
    pub(super) refund: Option<&'static [&'static str]>,
    /// What takes from one of several limits.
    pub(super) takes: &'static [&'static str],
    /// What gives back to one of several limits.
    pub(super) refunds: &'static [&'static str],
}

impl Form {
    pub(super) const fn files(self) -> Files {
        match self {
            Self::Gcra => Files {
                check: &[SCALED, GCRA, include_str!("gcra/check.lua"), CHECK],
                refund: None,
                takes: &[GCRA, include_str!("gcra/family.lua")],
                refunds: &[GCRA, include_str!("gcra/refund.lua")],
            },
            Self::Window => Files {
                check: &[WINDOW_STATE, WINDOW, include_str!("window/check.lua"), CHECK],
                refund: None,
                takes: &[WINDOW_STATE, WINDOW, COUNTER, include_str!("window/family.lua")],
                refunds: &[WINDOW_STATE, include_str!("window/refund.lua")],
            },
            Self::SlidingCounter => Files {
                check: &[
                    SCALED,
                    WINDOW_STATE,
                    COUNTER,
                    include_str!("window/check_counter.lua"),
                    CHECK,
                ],
                ..Self::Window.files()
            },
            Self::Ledger => Files {
                check: &[LEDGER, include_str!("ledger/check.lua")],
                refund: Some(&[LEDGER, LEDGER_GIVE, include_str!("ledger/refund.lua")]),
                takes: &[LEDGER, LEDGER_TEXT, include_str!("ledger/family.lua")],
                refunds: &[
                    LEDGER,
                    LEDGER_GIVE,
                    LEDGER_TEXT,
                    include_str!("ledger/text_refund.lua"),
                ],
            },
        }
    }
}

impl Single {
    pub(super) fn new(limit: &Limit) -> Self {
        let (quota, horizon) = (limit.quota(), micros(limit.horizon()));
        let (window, permits) = (micros(quota.window()), quota.permits());
        let windows = |form, kind: &str| {
            let text = format!(" {window} {} ", window + horizon);
            let arguments = [text, window.to_string(), permits.to_string(), kind.to_owned()];
            Self {
                form,
                gcra: None,
                arguments,
                largest: permits,
                longest_delay: Duration::from_micros(horizon),
            }
        };
        let ledger = |slot: u64, span: u64, kind: &str, paced: u64| {
            let text = format!(" {slot} {span} {horizon}");
            let arguments = [text, paced.to_string(), permits.to_string(), kind.to_owned()];
            Self {
                arguments,
                largest: if paced > 0 { permits.div_ceil(paced) } else { permits },
                ..windows(Form::Ledger, "")
            }
        };
        match limit.algorithm() {
            Algorithm::FixedWindow => windows(Form::Window, "fixed"),
            Algorithm::AlignedWindow => windows(Form::Window, "aligned"),
            Algorithm::SlidingCounter => windows(Form::SlidingCounter, "counter"),
            Algorithm::SlidingLog => ledger(1, window, "loose", 0),
            Algorithm::SubWindows(slots) => {
                let number = u64::from(slots.number());
                let slot = window.div_ceil(number);
                let span = slot * (number + u64::from(!slots.is_loose()));
                let kind = if slots.is_loose() { "loose" } else { "strict" };
                ledger(slot, span, kind, if slots.is_paced() { number } else { 0 })
            }
            Algorithm::Gcra | Algorithm::LeakyQueue { .. } => {
                let gcra = Gcra::new(limit);
                Self {
                    gcra: Some(gcra),
                    arguments: gcra.arguments(),
                    largest: quota.burst(),
                    longest_delay: gcra.longest_delay(),
                    ..windows(Form::Gcra, "gcra")
                }
            }
        }
    }

    pub(super) const fn form(&self) -> Form {
        self.form
    }

    /// Returns the quota for the check script of a limit that is alone at its key.
    pub(super) fn alone(&self) -> &[String] {
        // The kind is one argument less, because a server takes longer for each: `bench redis`.
        let parts = if self.form == Form::Gcra { 3 } else { 4 };
        self.arguments.get(..parts).unwrap_or_default()
    }
}

/// Returns a time as the scripts count it.
fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX)
}

/// Returns permits as an argument.
pub(super) fn argument(cost: Cost) -> i64 {
    i64::try_from(cost.get()).unwrap_or(i64::MAX).min(1 << 53)
}
