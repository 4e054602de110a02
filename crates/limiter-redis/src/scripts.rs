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

pub(crate) use plan::{Call, Charged, Plan, Taken};
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
const MANY: &str = include_str!("scripts/parts/many.lua");

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

/// The scripts of a check without a receipt.
///
/// They take no argument for a cost of one permit, since each argument takes a server as long as a
/// fiftieth of a decision. The numbers of the quotas are an argument and not a part of the text, since
/// a server keeps every text that it was ever sent.
#[derive(Debug)]
struct Check {
    /// For one key.
    one: Script,
    /// For several, which reads the clock once.
    many: Script,
}

impl Check {
    /// Returns the scripts by all limits of a policy, of which `own` are those of the tier that asks:
    /// the short way first, where there is one.
    fn new(prelude: &str, limits: &[Single], own: &Range<usize>) -> Self {
        let (quotas, short) = match limits {
            [limit] => (locals(&limit.functions()), limit.short().unwrap_or_default().to_owned()),
            _ if own.len() == limits.len() => several::short_way(limits).unwrap_or_default(),
            _ => Default::default(),
        };
        // The cost is there already.
        let take = Operation::Take.text().lines();
        let take = take.filter(|line| !line.starts_with("local cost, within"));
        let way = [&short, &functions(limits, own), &*take.collect::<Vec<_>>().join("\n")].concat();
        let cost = |own: &str| format!("local cost, within = ({own} or 1) + 0, -1\n");
        let one = [prelude, &quotas, &cost("ARGV[2]"), &way].concat();
        let decide = ["local function decide(KEYS, own)\n", &cost("own"), &way, "\nend\n"].concat();
        let many = [prelude, &quotas, &decide, MANY].concat();
        Self { one: Script::new(one), many: Script::new(many) }
    }
}

/// Returns the script of an operation for all limits of a policy, tier by tier, of which `own` are
/// those of the tier that asks.
fn script(prelude: &str, limits: &[Single], own: &Range<usize>, operation: Operation) -> Script {
    let quotas = match limits {
        [limit] => locals(&limit.functions()),
        _ => String::new(),
    };
    Script::new([prelude, &quotas, &functions(limits, own), operation.text()].concat())
}

/// Returns the functions of all limits.
fn functions(limits: &[Single], own: &Range<usize>) -> String {
    match limits {
        [limit] => long_way(limit),
        _ => several::long_way(limits, own),
    }
}

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
