//! The Lua scripts of limiter-redis: each has a contract and is sent.
//!
//! A script is a file in one folder. It includes the functions in the folder `functions`.

use super::{File, Finding, Tree};

const FOLDER: &str = "crates/limiter-redis/src/scripts";
const TEXTS: &str = "crates/limiter-redis/src/scripts.rs";

/// The folder of what scripts include.
const FUNCTIONS: &str = "functions/";

/// A script opens with its contract: its name, its keys, arguments and reply, and what it costs.
pub(super) fn has_contract(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, name) in scripts(tree).filter(|(_, name)| !name.starts_with(FUNCTIONS)) {
        let header = comments(file);
        let title = format!("-- Script  {}:", name.trim_end_matches(".lua"));
        let argv = code(file).contains("ARGV").then_some("-- ARGV ");
        let parts = [title.as_str(), "-- KEYS ", "-- Reply ", "-- Costs "];
        for part in parts.into_iter().chain(argv).filter(|part| !header.contains(part)) {
            let message = format!("no `{part}` in the opening comment; describe it there");
            findings.push(file.finding(1, message));
        }
    }
    findings
}

/// Each file is a part of some script that is sent.
pub(super) fn is_sent(tree: &Tree) -> Vec<Finding> {
    let texts = tree.0.iter().find(|file| file.path == TEXTS).map_or("", |file| &file.text);
    let is_included = |name: &str| texts.contains(&format!("include_str!(\"scripts/{name}\")"));
    let unused = scripts(tree).filter(|(_, name)| !is_included(name));
    unused
        .map(|(file, _)| file.finding(1, "script that no source includes; send it, or delete it"))
        .collect()
}

/// Returns the scripts with their paths in the folder.
fn scripts(tree: &Tree) -> impl Iterator<Item = (&File, &str)> {
    tree.0.iter().filter_map(|file| {
        let name = file.path.strip_prefix(FOLDER)?.strip_prefix('/')?;
        (file.extension() == "lua").then_some((file, name))
    })
}

/// Returns the comment that opens a file.
fn comments(file: &File) -> String {
    let lines: Vec<&str> = file.text.lines().take_while(|line| line.starts_with("--")).collect();
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

    const CHECK: &str = "crates/limiter-redis/src/scripts/gcra.lua";
    const RESET: &str = "crates/limiter-redis/src/scripts/reset.lua";
    const CLOCK: &str = "crates/limiter-redis/src/scripts/functions/clock.lua";

    #[test]
    fn script_without_contract_fires() {
        let reset =
            "-- Script  reset: x\n-- KEYS    a key\n-- Reply   1\n-- Costs   DEL\ncall('DEL')";
        let check = "-- Script  gcra: x\n-- KEYS    a key\n-- ARGV    a cost\n-- Reply   a debt\n\
                     -- Costs   GET\nx(KEYS[1], ARGV[1])";
        let good = Tree::sample(&[(CHECK, check), (RESET, reset), (CLOCK, "local now")]);
        assert!(has_contract(&good).is_empty());
        let bad = [
            (CHECK, &*check.replace("-- ARGV ", "-- argv ")),
            (RESET, &*reset.replace("-- Script  reset", "-- Costs   DEL\nScript")),
        ];
        assert_eq!(
            found(&has_contract(&Tree::sample(&bad))),
            [(CHECK, 1), (RESET, 1), (RESET, 1), (RESET, 1)]
        );
    }

    #[test]
    fn script_that_is_not_sent_fires() {
        let scripts = [(CHECK, ""), (CLOCK, "")];
        let all =
            "include_str!(\"scripts/gcra.lua\"), include_str!(\"scripts/functions/clock.lua\")";
        let good = [scripts.as_slice(), &[(TEXTS, all)]].concat();
        assert!(is_sent(&Tree::sample(&good)).is_empty());
        let elsewhere = ("crates/limiter-redis/src/lib.rs", all);
        let bad = [scripts.as_slice(), &[elsewhere]].concat();
        assert_eq!(found(&is_sent(&Tree::sample(&bad))), [(CHECK, 1), (CLOCK, 1)]);
    }
}
