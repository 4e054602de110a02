//! The Lua scripts of limiter-redis: each has a contract, is sent, and is compared with its twin.
//!
//! A script that is sent is a concatenation of files. The file that reads `KEYS` is an operation. The
//! files of an algorithm have a folder of their own, and one of them describes the state.

use super::{File, Finding, Tree};

const FOLDER: &str = "crates/limiter-redis/src/scripts";
const SOURCES: &str = "crates/limiter-redis/src";
const TESTS: &str = "crates/limiter-redis/src/tests/twins";

/// The folder that combines algorithms, which has no state of its own.
const SEVERAL: &str = "several";

/// An operation opens with its contract: its keys, arguments and reply.
pub(super) fn has_contract(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, _) in scripts(tree) {
        let header = comments(file);
        let code = code(file);
        if !code.contains("KEYS") {
            continue;
        }
        let argv = code.contains("ARGV").then_some("ARGV");
        for word in ["KEYS", "Reply"].into_iter().chain(argv).filter(|word| !header.contains(word))
        {
            let message = format!("no `{word}` in the opening comment; describe it there");
            findings.push(file.finding(1, message));
        }
    }
    for folder in algorithms(tree) {
        let mut files = scripts(tree).filter(|(_, name)| name.starts_with(&format!("{folder}/")));
        let Some((first, _)) = files.next() else { continue };
        let describes = |file| comments(file).contains("-- State  ");
        if !describes(first) && !files.any(|(file, _)| describes(file)) {
            let message = format!("no file of {folder} has `State` in its opening comment; add it");
            findings.push(first.finding(1, message));
        }
    }
    findings
}

/// Each file is a part of some script that is sent.
pub(super) fn is_sent(tree: &Tree) -> Vec<Finding> {
    let sources: Vec<&File> = tree
        .0
        .iter()
        .filter(|file| file.path.starts_with(SOURCES) && file.extension() == "rs")
        .collect();
    let is_included = |name: &str| {
        let from_outside = format!("include_str!(\"scripts/{name}\")");
        let from_inside = format!("include_str!(\"{name}\")");
        sources.iter().any(|file| {
            file.text.contains(&from_outside)
                || file.path.starts_with(FOLDER) && file.text.contains(&from_inside)
        })
    };
    let unused = scripts(tree).filter(|(_, name)| !is_included(name));
    unused
        .map(|(file, _)| file.finding(1, "script that no source includes; send it, or delete it"))
        .collect()
}

/// The twin tests name each algorithm's folder, as `gcra/`.
pub(super) fn is_tested(tree: &Tree) -> Vec<Finding> {
    let is_named = |folder: &str| {
        let name = format!("`{folder}/`");
        tree.0.iter().any(|file| file.path.starts_with(TESTS) && file.text.contains(&name))
    };
    let mut findings = Vec::new();
    for folder in folders(tree).into_iter().filter(|folder| !is_named(folder)) {
        let first = scripts(tree).find(|(_, name)| name.starts_with(&format!("{folder}/")));
        let message =
            format!("{folder} is not compared with a twin; add it to {TESTS}, and name it");
        findings.extend(first.map(|(file, _)| file.finding(1, message)));
    }
    findings
}

/// Returns the scripts with their paths in the folder.
fn scripts(tree: &Tree) -> impl Iterator<Item = (&File, &str)> {
    tree.0.iter().filter_map(|file| {
        let name = file.path.strip_prefix(FOLDER)?.strip_prefix('/')?;
        (file.extension() == "lua").then_some((file, name))
    })
}

fn folders(tree: &Tree) -> Vec<&str> {
    let mut folders: Vec<&str> =
        scripts(tree).filter_map(|(_, name)| Some(name.split_once('/')?.0)).collect();
    folders.sort_unstable();
    folders.dedup();
    folders
}

fn algorithms(tree: &Tree) -> impl Iterator<Item = &str> {
    folders(tree).into_iter().filter(|folder| *folder != SEVERAL)
}

/// Returns the comment that opens a file.
fn comments(file: &File) -> String {
    let lines = file.text.lines().skip_while(|line| line.is_empty());
    let lines: Vec<&str> = lines.take_while(|line| line.starts_with("--")).collect();
    lines.join("\n")
}

/// Returns a file without its comments.
fn code(file: &File) -> String {
    let lines: Vec<&str> =
        file.text.lines().map(|line| line.split("--").next().unwrap_or_default()).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found;

    const STATE: &str = "crates/limiter-redis/src/scripts/gcra/state.lua";
    const CHECK: &str = "crates/limiter-redis/src/scripts/gcra/check.lua";
    const RESET: &str = "crates/limiter-redis/src/scripts/reset.lua";
    const RUST: &str = "crates/limiter-redis/src/scripts/limit.rs";
    const TWINS: &str = "crates/limiter-redis/src/tests/twins.rs";

    #[test]
    fn script_without_contract_fires() {
        let good = Tree::sample(&[
            (STATE, "-- GCRA.\n--\n-- State    `TAT increment reach`\nlocal x"),
            (CHECK, "\n-- KEYS[1]  a key\n-- ARGV  a cost\n-- Reply  a debt\nx(KEYS[1], ARGV[1])"),
            (RESET, "-- KEYS[1]  a key\n-- Reply  1\nreturn call('DEL', KEYS[1])"),
        ]);
        assert!(has_contract(&good).is_empty());
        let bad = Tree::sample(&[
            (STATE, "local x -- State    `TAT`"),
            (CHECK, "-- KEYS[1]  a key\nx(KEYS[1], ARGV[1])"),
            (RESET, "return call('DEL', KEYS[1])"),
        ]);
        let findings = has_contract(&bad);
        assert_eq!(found(&findings), [(CHECK, 1), (CHECK, 1), (RESET, 1), (RESET, 1), (STATE, 1)]);
    }

    #[test]
    fn script_that_is_not_sent_fires() {
        let scripts = [(STATE, ""), (CHECK, ""), (RESET, "")];
        let all = "include_str!(\"gcra/state.lua\"), include_str!(\"gcra/check.lua\")";
        let reset = ("crates/limiter-redis/src/scripts.rs", "include_str!(\"scripts/reset.lua\")");
        let good = [scripts.as_slice(), &[(RUST, all), reset]].concat();
        assert!(is_sent(&Tree::sample(&good)).is_empty());
        let outside = ("crates/limiter-redis/src/lib.rs", all);
        let bad = [scripts.as_slice(), &[outside, reset]].concat();
        assert_eq!(found(&is_sent(&Tree::sample(&bad))), [(STATE, 1), (CHECK, 1)]);
    }

    #[test]
    fn algorithm_without_a_twin_fires() {
        let good = Tree::sample(&[(STATE, ""), (RESET, ""), (TWINS, "//! GCRA in `gcra/`.")]);
        assert!(is_tested(&good).is_empty());
        let bad = Tree::sample(&[(STATE, ""), (CHECK, ""), (TWINS, "//! gcra_check")]);
        assert_eq!(found(&is_tested(&bad)), [(STATE, 1)]);
    }
}
