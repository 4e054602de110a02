//! Each Lua script has a contract, a Rust twin, and both suites that hold the two together.
//!
//! An algorithm is a file of functions; a short way of it has its name and more, as `gcra_check` is one
//! of `gcra`; an operation stands in a folder of its own. What these share is none of them.

use super::{File, Finding, Tree};

const FOLDER: &str = "crates/limiter-redis/src/scripts";
const OPERATIONS: &str = "crates/limiter-redis/src/scripts/operations";
const TESTS: &str = "crates/limiter-redis/src/tests";

/// Files that algorithms share, and that are none.
const SHARED: &[&str] = &["prelude"];

/// The suites in which each script is registered, as a part of a test file's name.
const SUITES: [&str; 2] = ["conformance", "twin"];

/// What the comment that opens a file tells.
const OF_AN_ALGORITHM: &[&str] = &["Quota", "State", "Text", "Numbers"];
const OF_A_SHORT_WAY: &[&str] = &["ARGV", "Reply"];
const OF_AN_OPERATION: &[&str] = &["KEYS", "ARGV", "Reply"];

/// A script opens with its contract.
pub(super) fn has_contract(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.0 {
        let contract = match file.stem("lua") {
            Some((OPERATIONS, _)) => OF_AN_OPERATION,
            Some((FOLDER, name)) if is_short_way(tree, name) => OF_A_SHORT_WAY,
            Some((FOLDER, name)) if !SHARED.contains(&name) => OF_AN_ALGORITHM,
            _ => continue,
        };
        let header: String = file.text.lines().take_while(|line| line.starts_with("--")).collect();
        for word in contract.iter().filter(|word| !header.contains(*word)) {
            let message = format!("no `{word}` in the opening comment; say what it is");
            findings.push(file.finding(1, message));
        }
    }
    findings
}

/// An algorithm has its Rust side next to it.
pub(super) fn has_twin(tree: &Tree) -> Vec<Finding> {
    let alone = algorithms(tree).filter(|(_, name)| {
        !is_short_way(tree, name) && tree.get(&format!("{FOLDER}/{name}.rs")).is_none()
    });
    alone
        .map(|(file, name)| {
            file.finding(1, format!("script without a twin; add {name}.rs beside it"))
        })
        .collect()
}

/// An algorithm and each short way of it is run by the conformance suite, and compared with its twin.
pub(super) fn is_tested(tree: &Tree) -> Vec<Finding> {
    let registered = |suite: &str, name: &str| {
        tree.0.iter().any(|file| {
            let test = file.path.strip_prefix(TESTS).is_some_and(|rest| rest.contains(suite));
            test && file.extension() == "rs" && words(&file.text).any(|word| word == name)
        })
    };
    let mut findings = Vec::new();
    for (file, name) in algorithms(tree) {
        for suite in SUITES.into_iter().filter(|suite| !registered(suite, name)) {
            let message = format!("script not in a *{suite}* suite; register it in {TESTS}");
            findings.push(file.finding(1, message));
        }
    }
    findings
}

/// The scripts of algorithms, short ways among them.
fn algorithms(tree: &Tree) -> impl Iterator<Item = (&File, &str)> {
    tree.0.iter().filter_map(|file| {
        let (folder, name) = file.stem("lua")?;
        (folder == FOLDER && !SHARED.contains(&name)).then_some((file, name))
    })
}

/// Whether a script has the name of another one, and more.
fn is_short_way(tree: &Tree, name: &str) -> bool {
    let mut starts = name.match_indices('_').map(|(at, _)| name.split_at(at).0);
    starts.any(|start| tree.get(&format!("{FOLDER}/{start}.lua")).is_some())
}

/// The words of a text, so that a name in a longer one does not count.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found;

    const SCRIPT: &str = "crates/limiter-redis/src/scripts/gcra.lua";
    const SHORT: &str = "crates/limiter-redis/src/scripts/gcra_check.lua";
    const TAKE: &str = "crates/limiter-redis/src/scripts/operations/take.lua";
    const TWIN: (&str, &str) = ("crates/limiter-redis/src/scripts/gcra.rs", "");
    const PRELUDE: (&str, &str) = ("crates/limiter-redis/src/scripts/prelude.lua", "local x");
    const PART: (&str, &str) = ("crates/limiter-redis/src/scripts/parts/text.lua", "local x");

    #[test]
    fn script_without_contract_fires() {
        let good = Tree::sample(&[
            (SCRIPT, "-- Quota: limit\n-- State: debt\n-- Text: at\n-- Numbers: debt\nlocal x"),
            (SHORT, "-- ARGV: price\n-- Reply: debt\nreturn 1"),
            (TAKE, "-- KEYS[1]: state\n-- ARGV: cost\n-- Reply: debt\nreturn 1"),
            PRELUDE,
            PART,
        ]);
        assert!(has_contract(&good).is_empty());
        let bad = Tree::sample(&[
            (SCRIPT, "-- Quota, State, Text\nlocal x -- Numbers"),
            (SHORT, "-- ARGV: price\nreturn 1 -- Reply"),
            (TAKE, "-- Reply: debt\nreturn 1"),
        ]);
        let findings = has_contract(&bad);
        assert_eq!(found(&findings), [(SCRIPT, 1), (SHORT, 1), (TAKE, 1), (TAKE, 1)]);
    }

    #[test]
    fn script_without_twin_fires() {
        let alone = Tree::sample(&[(SCRIPT, ""), (SHORT, ""), (TAKE, ""), PRELUDE, PART]);
        assert_eq!(found(&has_twin(&alone)), [(SCRIPT, 1)]);
        assert!(has_twin(&Tree::sample(&[(SCRIPT, ""), (SHORT, ""), TWIN, PRELUDE])).is_empty());
    }

    #[test]
    fn script_in_one_suite_only_fires() {
        let conformance = ("crates/limiter-redis/src/tests/it/conformance.rs", "suite!(gcra);");
        let twin = ("crates/limiter-redis/src/tests/it/twins.rs", "twin(\"gcra\")");
        let bad = Tree::sample(&[(SCRIPT, ""), conformance, (twin.0, "other")]);
        assert_eq!(found(&is_tested(&bad)), [(SCRIPT, 1)]);
        assert!(is_tested(&Tree::sample(&[(SCRIPT, ""), conformance, twin, PRELUDE])).is_empty());
        let short = Tree::sample(&[(SCRIPT, ""), (SHORT, ""), conformance, twin]);
        assert_eq!(found(&is_tested(&short)), [(SHORT, 1), (SHORT, 1)]);
    }
}
