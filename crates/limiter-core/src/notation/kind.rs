//! How algorithms are written.

use alloc::{format, string::String, vec::Vec};
use core::{fmt, str::FromStr};

use super::number;
use crate::{
    Error, ErrorKind, Kind,
    algorithm::{Slots, Start},
};

/// Writes the text that reads back to the same.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gcra => f.write_str("gcra"),
            Self::TokenBucket => f.write_str("token-bucket"),
            Self::LeakyBucket => f.write_str("leaky-bucket"),
            Self::LeakyQueue { depth } => write!(f, "leaky-queue depth {depth}"),
            Self::FixedWindow(Start::FirstUse) => f.write_str("fixed-window"),
            Self::FixedWindow(Start::Aligned) => f.write_str("fixed-window aligned"),
            Self::SubWindows(slots) => write!(f, "sub-windows {slots}"),
            Self::SlidingCounter => f.write_str("sliding-counter"),
            Self::SlidingLog => f.write_str("sliding-log"),
        }
    }
}

impl FromStr for Kind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text).map_err(|fault| {
            let message = format!("an algorithm {:?}: {fault}", text.trim());
            Error::new(ErrorKind::InvalidSetting, message)
        })
    }
}

fn parse(text: &str) -> Result<Kind, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    Ok(match words.as_slice() {
        ["gcra"] => Kind::Gcra,
        ["token-bucket"] => Kind::TokenBucket,
        ["leaky-bucket"] => Kind::LeakyBucket,
        ["leaky-queue", "depth", depth] => Kind::LeakyQueue { depth: number::parse(depth)? },
        ["fixed-window"] => Kind::FixedWindow(Start::FirstUse),
        ["fixed-window", "aligned"] => Kind::FixedWindow(Start::Aligned),
        ["sub-windows", number, "slots", rest @ ..] => Kind::SubWindows(slots(number, rest)?),
        ["sliding-counter"] => Kind::SlidingCounter,
        ["sliding-log"] => Kind::SlidingLog,
        [name, ..] => return Err(expected(name)),
        [] => return Err(expected("")),
    })
}

/// Returns what could have been written, where it begins with `name`.
fn expected(name: &str) -> String {
    let alone = ["gcra", "token-bucket", "leaky-bucket", "sliding-counter", "sliding-log"];
    match name {
        "leaky-queue" => "write leaky-queue depth N".into(),
        "fixed-window" => "write fixed-window, or fixed-window aligned".into(),
        "sub-windows" => "write sub-windows N slots, and then loose, paced, or loose paced".into(),
        name if alone.contains(&name) => format!("nothing can follow {name}"),
        name => format!(
            "{name:?} is none; use gcra, token-bucket, leaky-bucket, leaky-queue, fixed-window, \
             sub-windows, sliding-counter or sliding-log"
        ),
    }
}

fn slots(number: &str, rest: &[&str]) -> Result<Slots, String> {
    let number = number::parse(number)?;
    let slots = |make: fn(u32) -> Result<Slots, Error>| {
        // Too many for the type are too many for a window.
        make(u32::try_from(number).unwrap_or(u32::MAX))
            .map_err(|_| format!("{number} slots are no window; use 1 to {}", Slots::MAX))
    };
    match rest {
        [] => slots(Slots::strict),
        ["paced"] => Ok(slots(Slots::strict)?.paced()),
        ["loose"] => slots(Slots::loose),
        ["loose", "paced"] => Ok(slots(Slots::loose)?.paced()),
        _ => Err(expected("sub-windows")),
    }
}
