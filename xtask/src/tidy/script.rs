//! Each Lua script has a contract, a Rust twin, and both suites that hold the two together.

use super::{File, Finding, Tree};

const FOLDER: &str = "crates/limiter-redis/src/scripts";
const TESTS: &str = "crates/limiter-redis/src/tests";

/// Files that algorithms share, and that are none.
const SHARED: &[&str] = &["prelude"];

/// The suites in which each script is registered, as a part of a test file's name.
const SUITES: [&str; 2] = ["conformance", "twin"];

/// What the comment that opens a script tells.
const CONTRACT: [&str; 3] = ["KEYS", "ARGV", "Reply"];

/// A script opens with its contract.
pub(super) fn has_contract(file: &File) -> Vec<Finding> {
    if algorithm(file).is_none() {
        return Vec::new();
    }
    let header: String = file.text.lines().take_while(|line| line.starts_with("--")).collect();
    let missing = CONTRACT.into_iter().filter(|word| !header.contains(word));
    missing
        .map(|word| file.finding(1, format!("no `{word}` in the opening comment; say what it is")))
        .collect()
}

/// A script has its Rust side next to it.
pub(super) fn has_twin(tree: &Tree) -> Vec<Finding> {
    let alone =
        algorithms(tree).filter(|(_, name)| tree.get(&format!("{FOLDER}/{name}.rs")).is_none());
    alone
        .map(|(file, name)| {
            file.finding(1, format!("script without a twin; add {name}.rs beside it"))
        })
        .collect()
}

/// A script is run by the conformance suite, and compared with its twin.
pub(super) fn is_tested(tree: &Tree) -> Vec<Finding> {
    let registered = |suite: &str, name: &str| {
        tree.0.iter().any(|file| {
            let test = file.path.strip_prefix(TESTS).is_some_and(|rest| rest.contains(suite));
            test && file.extension() == "rs" && file.text.contains(name)
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

fn algorithms(tree: &Tree) -> impl Iterator<Item = (&File, &str)> {
    tree.0.iter().filter_map(|file| Some((file, algorithm(file)?)))
}

/// The name of the algorithm in a script, unless it is shared or no script.
fn algorithm(file: &File) -> Option<&str> {
    let (folder, name) = file.stem("lua")?;
    (folder == FOLDER && !SHARED.contains(&name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found;

    const SCRIPT: &str = "crates/limiter-redis/src/scripts/gcra.lua";
    const TWIN: (&str, &str) = ("crates/limiter-redis/src/scripts/gcra.rs", "");
    const PRELUDE: (&str, &str) = ("crates/limiter-redis/src/scripts/prelude.lua", "local x");

    #[test]
    fn script_without_contract_fires() {
        let good =
            File::sample(SCRIPT, "-- KEYS[1]: state\n-- ARGV[1]: cost\n-- Reply: debt\nreturn 1");
        let bad = File::sample(SCRIPT, "-- KEYS[1]: state\nreturn 1 -- ARGV, Reply");
        assert!(has_contract(&good).is_empty());
        assert_eq!(found(&has_contract(&bad)), [(SCRIPT, 1), (SCRIPT, 1)]);
        assert!(has_contract(&File::sample(PRELUDE.0, PRELUDE.1)).is_empty());
    }

    #[test]
    fn script_without_twin_fires() {
        assert_eq!(found(&has_twin(&Tree::sample(&[(SCRIPT, ""), PRELUDE]))), [(SCRIPT, 1)]);
        assert!(has_twin(&Tree::sample(&[(SCRIPT, ""), TWIN, PRELUDE])).is_empty());
    }

    #[test]
    fn script_in_one_suite_only_fires() {
        let conformance = ("crates/limiter-redis/src/tests/it/conformance.rs", "suite!(gcra);");
        let twin = ("crates/limiter-redis/src/tests/it/twins.rs", "twin(\"gcra\")");
        let bad = Tree::sample(&[(SCRIPT, ""), conformance, (twin.0, "other")]);
        assert_eq!(found(&is_tested(&bad)), [(SCRIPT, 1)]);
        assert!(is_tested(&Tree::sample(&[(SCRIPT, ""), conformance, twin, PRELUDE])).is_empty());
    }
}
