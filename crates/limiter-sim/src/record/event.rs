//! Something that happened to a key, or to all.

use std::fmt;

use limiter_core::{ErrorKind, Source};

use crate::{fault::Fault, vocabulary::Micros};

/// Something that happened to a key, or to all.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) enum Event {
    Asks { operation: &'static str, permits: u64, tier: usize },
    Admitted { permits: u64, source: Source, delay: Micros },
    Refused { source: Source },
    Fails { kind: ErrorKind },
    Leaves,
    Ends,
    Lost,
    Refunded { permits: u64 },
    Executed { call: u64, script: &'static str, is_changed: bool },
    Fault { fault: Fault, until: Micros },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asks { operation, permits, tier } => {
                write!(f, "asks: {operation} {permits} by tier {tier}")
            }
            Self::Admitted { permits, source, delay } => {
                write!(f, "is admitted {permits} by {source:?}, in {delay} us")
            }
            Self::Refused { source } => write!(f, "is refused by {source:?}"),
            Self::Fails { kind } => write!(f, "fails: {kind:?}"),
            Self::Leaves => f.write_str("leaves without an answer"),
            Self::Ends => f.write_str("has ended"),
            Self::Lost => f.write_str("has lost its permit"),
            Self::Refunded { permits } => write!(f, "gets {permits} back"),
            Self::Executed { call, script, is_changed } => {
                let charged = if *is_changed { "changes the state" } else { "changes nothing" };
                write!(f, "call {call} is executed: {script} {charged}")
            }
            Self::Fault { fault, until } => write!(f, "FAULT: {fault} until {until} us"),
        }
    }
}
