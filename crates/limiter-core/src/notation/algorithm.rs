//! Algorithms as text.

use alloc::{format, string::String, vec::Vec};
use core::{fmt, str::FromStr};

use super::number::number;
use crate::{Algorithm, Error, ErrorKind, Slots, error::excerpt};

const ALL: &str = "gcra, token-bucket, leaky-bucket, leaky-queue, fixed-window, aligned-window, \
                   sub-windows, sliding-counter or sliding-log";

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
        parse(&text.to_ascii_lowercase()).map_err(|fault| {
            Error::invalid(ErrorKind::InvalidSetting, "algorithm", text.trim(), fault)
        })
    }
}

pub(super) fn missing() -> String {
    format!("the algorithm is missing; use {ALL}")
}

fn parse(text: &str) -> Result<Algorithm, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (algorithm, options) = match words.as_slice() {
        [] => return Err(missing()),
        ["gcra" | "token-bucket" | "leaky-bucket", rest @ ..] => (Algorithm::Gcra, rest),
        ["fixed-window", "aligned", ..] => return Err("use aligned-window".into()),
        ["fixed-window", rest @ ..] => (Algorithm::FixedWindow, rest),
        ["aligned-window", rest @ ..] => (Algorithm::AlignedWindow, rest),
        ["sliding-counter", rest @ ..] => (Algorithm::SlidingCounter, rest),
        ["sliding-log", rest @ ..] => (Algorithm::SlidingLog, rest),
        ["leaky-queue", "depth", depth, rest @ ..] => {
            (Algorithm::LeakyQueue { depth: number("the depth", depth)? }, rest)
        }
        ["leaky-queue", ..] => return Err("the depth is missing; write leaky-queue depth N".into()),
        ["sub-windows", number, "slots", options @ ..] => {
            return Ok(Algorithm::SubWindows(slots(number, options)?));
        }
        ["sub-windows", ..] => {
            return Err("the number of slots is missing; write sub-windows N slots".into());
        }
        [name, ..] => return Err(format!("unknown algorithm {:?}; use {ALL}", excerpt(name))),
    };
    match options {
        [] => Ok(algorithm),
        [option, ..] => Err(format!("unexpected option {:?}; remove it", excerpt(option))),
    }
}

fn slots(number: &str, options: &[&str]) -> Result<Slots, String> {
    let number = self::number("the number of slots", number)?;
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    let (slots, options) = match options {
        ["loose", options @ ..] => (Slots::loose(number), options),
        _ => (Slots::strict(number), options),
    };
    let range = |_| format!("the number of slots must be from 1 to {}", Slots::MAX);
    match options {
        [] => slots.map_err(range),
        ["paced"] => slots.map(Slots::paced).map_err(range),
        _ => Err("only loose, paced or loose paced can follow the slots; remove it".into()),
    }
}
