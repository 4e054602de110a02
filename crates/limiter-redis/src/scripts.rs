//! The scripts: an operation, over one algorithm or several, over a kind of value.
//!
//! Each algorithm stands in a file of functions, beside its Rust side; each operation is one short
//! file that calls them. A script is put together of the files that a policy needs.

pub(crate) mod fixed_window;
pub(crate) mod gcra;
pub(crate) mod ledger;
mod plan;
mod several;
mod single;
pub(crate) mod sliding_counter;
#[cfg(test)]
pub(crate) mod twin;

use std::ops::Range;

pub(crate) use plan::{Call, Charged, Plan};
pub(crate) use several::Part;
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
    /// How they are packed, as `struct.unpack` is told.
    pub(crate) form: &'static str,
    pub(crate) text: &'static str,
}

const NOTES: &str = include_str!("scripts/parts/notes.lua");
const TEXT: &str = include_str!("scripts/parts/text.lua");
const TAPE: &str = include_str!("scripts/parts/tape.lua");
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

    /// Returns the text for where the cost is named already.
    fn text_behind_short_way(self) -> String {
        let lines = self.text().lines().filter(|line| !line.starts_with("local cost, within"));
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Returns the script of an operation for all limits of a policy, tier by tier, of which `own` are
/// those of the tier that asks.
fn script(prelude: &str, limits: &[Single], own: &Range<usize>, operation: Operation) -> Script {
    let mut source = prelude.to_owned();
    if let [limit] = limits {
        source += &locals(&limit.functions());
        source += &long_way(limit);
    } else {
        source += &several::long_way(limits, own);
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
    let (quota, short) = (locals(&limit.functions()), limit.short()?);
    let take = Operation::Take.text_behind_short_way();
    Some(Script::new([prelude, &quota, COST, short, &long_way(limit), &take].concat()))
}

/// Names the cost of a check.
const COST: &str = "local cost, within = (ARGV[2] or 1) + 0, -1\n";

/// Returns the functions of one limit.
fn long_way(limit: &Single) -> String {
    let value: &[&str] = if limit.is_ledger() { &[NOTES, TAPE] } else { &[NOTES, TEXT] };
    [&value.concat(), limit.functions().text, ONE].concat()
}

/// Returns the line that names the numbers of a quota.
fn locals(functions: &Functions) -> String {
    let Functions { quota, form, .. } = functions;
    format!("local {} = from_bytes('<{form}', ARGV[1])\n", quota.join(", "))
}

/// Returns how many bytes a form takes.
fn size_of(form: &str) -> usize {
    let bytes = |kind| match kind {
        'd' => 8,
        'I' | 'c' => 0,
        // How many integers or characters have.
        digit => digit.to_digit(10).map_or(0, |digit| digit as usize),
    };
    form.chars().map(bytes).sum()
}
