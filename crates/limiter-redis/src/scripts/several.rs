//! Scripts over several limits: the functions of all of them, and the short way of a check.

use std::{fmt::Write, ops::Range};

use super::{ENTRY, Functions, NOTES, PACKED, SEVERAL, Single, TEXT, size_of};

const CHECK: &str = include_str!("parts/several_check.lua");

/// The most limits that have a short way: a function in Lua has at most 200 locals, and 60 of those
/// around it.
const MAX_SHORT: usize = 8;

/// What a limit is in the short way of a check by several.
///
/// It names its values with `N` for the number of the limit among all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Finds what the cost would make of the state.
    pub(crate) text: &'static str,
    /// How a state is packed, and what it is in the script.
    pub(crate) form: &'static str,
    pub(crate) state: &'static str,
    /// What of the state is written that a charge leaves.
    pub(crate) written: &'static str,
    /// The numbers after a charge, and at a refusal.
    pub(crate) charged: &'static str,
    pub(crate) found: &'static str,
}

/// Returns the functions of all limits, tier by tier, of which `own` are those of the tier that asks.
pub(super) fn long_way(limits: &[Single], own: &Range<usize>) -> String {
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
    let mut byte = 1;
    for limit in limits {
        let Functions { name, form, .. } = limit.functions();
        // A String takes all that is written.
        let _ = write!(source, " {name}(from_bytes('<{form}', ARGV[1], {byte})),");
        byte += size_of(form);
    }
    let _ = writeln!(source, " }}\nlocal first, last = {}, {}", own.start + 1, own.end);
    source + SEVERAL
}

/// Returns a function that makes the functions for a quota.
fn constructor(limit: &Single) -> String {
    let Functions { name, quota, text, .. } = limit.functions();
    let packed = if limit.is_ledger() { [ENTRY, PACKED].concat() } else { String::new() };
    format!(
        "local function {name}({})\n{packed}{text}return {{ read = read, wait = wait, charge = charge, \
         owe = owe, refund = refund, write = write, length = length, numbers = numbers }}\nend\n",
        quota.join(", ")
    )
}

/// Returns the line that names the numbers of several quotas, and the short way of a check by these
/// limits without tiers; `None` where one of them has no short way, or there are too many.
pub(super) fn short_way(limits: &[Single]) -> Option<(String, String)> {
    let parts = limits.iter().map(|limit| Some((limit.functions(), limit.part()?)));
    let parts = parts.collect::<Option<Vec<_>>>().filter(|parts| parts.len() <= MAX_SHORT)?;
    // Joins what each limit has, with its number in place of `N`.
    let all = |between: &str, pick: &dyn Fn(&Functions, &Part) -> String| {
        let each = parts.iter().zip(1..);
        let each = each.map(|((functions, part), number)| {
            pick(functions, part).replace("_N", &format!("_{number}"))
        });
        each.collect::<Vec<_>>().join(between)
    };
    let names = all(", ", &|functions, _| {
        let names = functions.quota.iter().map(|name| format!("{name}_N"));
        names.collect::<Vec<_>>().join(", ")
    });
    let quotas = all("", &|functions, _| functions.form.to_owned());
    let quotas = format!("local {names} = from_bytes('<{quotas}', ARGV[1])\n");
    let code = all("\n", &|_, part| {
        let lines = part.text.lines().filter(|line| !line.trim_start().starts_with("--"));
        lines.collect::<Vec<_>>().join("\n")
    });
    let form = all("", &|_, part| part.form.to_owned());
    let short = CHECK
        .replace("--LIMITS", &code)
        .replace("SIZE", &size_of(&form).to_string())
        .replace("FORM", &form)
        .replace("STATES", &all(", ", &|_, part| part.state.to_owned()))
        .replace("WRITTEN", &all(", ", &|_, part| part.written.to_owned()))
        .replace("CHARGED", &all(", ", &|_, part| part.charged.to_owned()))
        .replace("FOUND", &all(", ", &|_, part| part.found.to_owned()));
    Some((quotas, short))
}
