//! Algorithms as text.

use alloc::{format, string::String, vec::Vec};
use core::{fmt, str::FromStr};

use super::number::number;
use crate::{Algorithm, Error, ErrorKind, Slots, error::excerpt};

const FORMS: &str = "gcra, token-bucket, leaky-bucket, leaky-queue depth N, fixed-window, \
                     aligned-window, sub-windows N slots [loose] [paced], sliding-counter or \
                     sliding-log";

/// Writes the text that reads back as the same algorithm.
impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gcra => f.write_str("gcra"),
            Self::LeakyQueue { depth } => write!(f, "leaky-queue depth {depth}"),
            Self::FixedWindow => f.write_str("fixed-window"),
            Self::AlignedWindow => f.write_str("aligned-window"),
            Self::SubWindows(slots) => write!(f, "sub-windows {slots}"),
            Self::SlidingCounter => f.write_str("sliding-counter"),
            Self::SlidingLog => f.write_str("sliding-log"),
        }
    }
}

impl FromStr for Algorithm {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        read(text).map_err(|fault| {
            Error::invalid(ErrorKind::InvalidSetting, "algorithm", text.trim(), fault)
        })
    }
}

/// Reads an algorithm, or returns its fault.
pub(super) fn read(text: &str) -> Result<Algorithm, String> {
    use Algorithm::SubWindows;

    let lower_case = text.to_ascii_lowercase();
    let words: Vec<&str> = lower_case.split_whitespace().collect();
    Ok(match *words {
        ["gcra" | "token-bucket" | "leaky-bucket"] => Algorithm::Gcra,
        ["leaky-queue", "depth", depth] => {
            Algorithm::LeakyQueue { depth: number("the depth", depth)? }
        }
        ["fixed-window"] => Algorithm::FixedWindow,
        ["aligned-window"] => Algorithm::AlignedWindow,
        ["sub-windows", n, "slots"] => SubWindows(slots(n, Slots::try_strict)?),
        ["sub-windows", n, "slots", "paced"] => SubWindows(slots(n, Slots::try_strict)?.paced()),
        ["sub-windows", "1", "slots", "loose", ..] => {
            return Err("a single loose slot is an aligned window; use aligned-window".into());
        }
        ["sub-windows", n, "slots", "loose"] => SubWindows(slots(n, Slots::try_loose)?),
        ["sub-windows", n, "slots", "loose", "paced"] => {
            SubWindows(slots(n, Slots::try_loose)?.paced())
        }
        ["sliding-counter"] => Algorithm::SlidingCounter,
        ["sliding-log"] => Algorithm::SlidingLog,
        _ => return Err(format!("unknown algorithm {:?}; use {FORMS}", excerpt(text))),
    })
}

fn slots(text: &str, new: fn(u32) -> Result<Slots, Error>) -> Result<Slots, String> {
    let number = u32::try_from(number("the number of slots", text)?).unwrap_or(u32::MAX);
    new(number).map_err(|_| format!("the number of slots must be from 1 to {}", Slots::MAX))
}
