//! The scripts: an operation, over one algorithm or several, over a kind of value.
//!
//! Each algorithm stands in a file of functions, beside its Rust side; each operation is one short
//! file that calls them. A script is put together of the files that a policy needs.

pub(crate) mod fixed_window;
pub(crate) mod gcra;
pub(crate) mod ledger;
mod plan;
mod single;
pub(crate) mod sliding_counter;
#[cfg(test)]
pub(crate) mod twin;

use std::{fmt::Write, ops::Range};

pub(crate) use plan::{Call, Charged, Plan};
pub(crate) use single::Single;

use crate::script::Script;

/// Sets `now` from the server's clock.
pub(crate) const PRELUDE: &str = include_str!("scripts/prelude.lua");

/// What the scripts' time zero is, in microseconds of Unix time.
pub(crate) const EPOCH: i64 = 1_600_000_000_000_000;

/// What is done with a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Take,
    Peek,
    Refund,
    Reset,
}

/// An algorithm's functions, and what they call the numbers of a quota.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Functions {
    pub(crate) name: &'static str,
    pub(crate) quota: &'static [&'static str],
    pub(crate) text: &'static str,
}

const NOTES: &str = include_str!("scripts/parts/notes.lua");
const TEXT: &str = include_str!("scripts/parts/text.lua");
const LIST: &str = include_str!("scripts/parts/list.lua");
const ENTRY: &str = include_str!("scripts/parts/entry.lua");
const PACKED: &str = include_str!("scripts/parts/packed.lua");
const ONE: &str = include_str!("scripts/parts/one.lua");
const SEVERAL: &str = include_str!("scripts/parts/several.lua");

impl Operation {
    const fn text(self) -> &'static str {
        match self {
            Self::Take => include_str!("scripts/operations/take.lua"),
            Self::Peek => include_str!("scripts/operations/peek.lua"),
            Self::Refund => include_str!("scripts/operations/refund.lua"),
            Self::Reset => include_str!("scripts/operations/reset.lua"),
        }
    }
}

/// Returns the script of an operation for all limits of a policy, tier by tier, of which `own` are
/// those of the tier that asks.
fn script(prelude: &str, limits: &[Single], own: &Range<usize>, operation: Operation) -> Script {
    let mut source = prelude.to_owned();
    if let [limit] = limits {
        source += &locals(&limit.functions(), "");
        source += &long_way(limit);
    } else {
        source += NOTES;
        source += TEXT;
        let mut made = Vec::new();
        for limit in limits {
            let functions = limit.functions();
            if !made.contains(&functions.name) {
                made.push(functions.name);
                source += &constructor(limit);
            }
        }
        source += "local limits = {";
        let mut byte = 1;
        for limit in limits {
            let Functions { name, quota, .. } = limit.functions();
            // A String takes all that is written.
            let _ = write!(source, " {name}({byte}),");
            byte += quota.len() * size_of::<f64>();
        }
        let _ = writeln!(source, " }}\nlocal first, last = {}, {}", own.start + 1, own.end);
        source += SEVERAL;
    }
    source += operation.text();
    Script::new(source)
}

/// Returns the script of a check by one limit, the short way first, where there is one.
///
/// It takes no argument for a cost of one permit, since each argument takes a server as long as a
/// fiftieth of a decision. The numbers of the quota are an argument and not a part of the text, since a
/// server keeps every text that it was ever sent.
fn check(prelude: &str, limit: &Single) -> Option<Script> {
    let cost = "local cost, within = (ARGV[2] or 1) + 0, -1\n";
    let short = [&locals(&limit.functions(), ""), cost, limit.short()?].concat();
    // The cost is there already.
    let take = Operation::Take.text().lines();
    let take = take.filter(|line| !line.starts_with("local cost, within"));
    let take = take.collect::<Vec<_>>().join("\n");
    Some(Script::new([prelude, &short, &long_way(limit), &take].concat()))
}

/// Returns the functions of one limit.
fn long_way(limit: &Single) -> String {
    let value: &[&str] = if limit.is_ledger() { &[NOTES, ENTRY, LIST] } else { &[NOTES, TEXT] };
    [&value.concat(), limit.functions().text, ONE].concat()
}

/// Returns the line that names the numbers of a quota: those at the beginning of `ARGV[1]`, or at a
/// place in it that is written like `, 17`.
fn locals(functions: &Functions, place: &str) -> String {
    let (names, form) = (functions.quota.join(", "), "d".repeat(functions.quota.len()));
    format!("local {names} = from_bytes('<{form}', ARGV[1]{place})\n")
}

/// Returns a function that makes the functions for the quota that begins at a byte of `ARGV[1]`.
fn constructor(limit: &Single) -> String {
    let functions = limit.functions();
    let Functions { name, text, .. } = functions;
    let locals = locals(&functions, ", i");
    let packed = if limit.is_ledger() { [ENTRY, PACKED].concat() } else { String::new() };
    format!(
        "local function {name}(i)\n{locals}{packed}{text}return {{ read = read, wait = wait, charge = \
         charge, owe = owe, refund = refund, write = write, length = length, numbers = numbers \
         }}\nend\n"
    )
}
