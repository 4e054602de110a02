//! Scripts over several limits: the functions of all of them, and the short way of a check.

use std::{
    fmt::{Display, Write},
    ops::Range,
};

use super::{ENTRY, Functions, NOTES, Operation, PACKED, SEVERAL, Single, TEXT};
use crate::script::Script;

const CHECK: &str = include_str!("parts/several_check.lua");

/// What a limit is in the short way of a check by several.
///
/// It names its values with `N` for the number of the limit among all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Reads the quota and the state, and finds what the cost would make of it. `A` stands for the
    /// number of the first argument.
    pub(crate) text: &'static str,
    /// How the state is written that a charge leaves, and what of.
    pub(crate) format: &'static str,
    pub(crate) written: &'static str,
    /// The numbers after a charge, and at a refusal.
    pub(crate) charged: &'static str,
    pub(crate) found: &'static str,
}

/// Returns the functions of all limits, tier by tier, of which `own` are those of the tier that asks.
/// `quota` returns what a number of a limit's quota is in the script.
pub(super) fn long_way<Q: Display>(
    limits: &[Single],
    own: &Range<usize>,
    mut quota: impl FnMut(usize, &'static str) -> Q,
) -> String {
    let mut source = [NOTES, TEXT].concat();
    let mut made = Vec::new();
    for limit in limits {
        let functions = limit.functions();
        if !made.contains(&functions.name) {
            made.push(functions.name);
            source += &constructor(limit);
        }
    }
    source += "local limits = {";
    for (index, limit) in limits.iter().enumerate() {
        let functions = limit.functions();
        let numbers = functions.quota.iter().map(|name| quota(index, name).to_string());
        let numbers = numbers.collect::<Vec<_>>().join(", ");
        // A String takes all that is written.
        let _ = write!(source, " {}({numbers}),", functions.name);
    }
    let _ = writeln!(source, " }}\nlocal first, last = {}, {}", own.start + 1, own.end);
    source + SEVERAL
}

/// Returns a function that makes the functions for a quota.
fn constructor(limit: &Single) -> String {
    let Functions { name, quota, text } = limit.functions();
    let packed = if limit.is_ledger() { [ENTRY, PACKED].concat() } else { String::new() };
    format!(
        "local function {name}({})\n{packed}{text}return {{ read = read, wait = wait, charge = charge, \
         owe = owe, refund = refund, write = write, numbers = numbers }}\nend\n",
        quota.join(", ")
    )
}

/// Returns the script of a check by several limits without tiers, the short way first, and its
/// arguments but for the cost; `None` where one of them has no short way.
pub(super) fn check(prelude: &str, limits: &[Single]) -> Option<(Script, Vec<i64>)> {
    let mut arguments = Vec::new();
    let mut each = String::new();
    let (mut formats, mut written) = (Vec::new(), Vec::new());
    let (mut charged, mut found) = (Vec::new(), Vec::new());
    for (index, limit) in limits.iter().enumerate() {
        let (part, numbers) = limit.part()?;
        let numbered = |text: &str| text.replace("_N", &format!("_{}", index + 1));
        let own = part.text.lines().filter(|line| !line.trim_start().starts_with("--"));
        let own = numbered(&own.collect::<Vec<_>>().join("\n"));
        each += &own.replace("ARGV[A", &format!("ARGV[{}", arguments.len() + 1));
        each += "\n";
        formats.push(part.format);
        written.push(numbered(part.written));
        charged.push(numbered(part.charged));
        found.push(numbered(part.found));
        arguments.extend(numbers);
    }
    let short = CHECK
        .replace("--LIMITS\n", &each)
        .replace("COST", &(arguments.len() + 1).to_string())
        .replace("TEXTS", &formats.join(" "))
        .replace("WRITTEN", &written.join(", "))
        .replace("CHARGED", &charged.join(", "))
        .replace("FOUND", &found.join(", "));
    let quota = |index, name: &str| format!("{name}_{}", index + 1);
    let long_way = long_way(limits, &(0..limits.len()), quota);
    let take = Operation::Take.text_behind_short_way();
    Some((Script::new([prelude, &short, &long_way, &take].concat()), arguments))
}
