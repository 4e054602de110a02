//! Algorithms are pure: they are given the time and a state, and nothing else.

use super::{File, Finding, Tree};

/// The modules of the core that hold an algorithm each.
const ALGORITHMS: &[&str] = &["gcra"];

const FOLDER: &str = "crates/limiter-core/src";

/// What an algorithm's code does not mention, as a word or a part of a name.
const IMPURE: [&str; 9] =
    ["clock", "lock", "mutex", "atomic", "instant", "systemtime", "std", "async", "await"];

/// Each algorithm named here exists: a renamed one is not silently exempt.
pub(super) fn all_present(tree: &Tree) -> Vec<Finding> {
    let missing = ALGORITHMS.iter().map(|name| format!("{FOLDER}/{name}.rs"));
    let missing = missing.filter(|path| tree.get(path).is_none());
    let message = "no such file; correct ALGORITHMS in xtask/src/tidy/algorithm.rs";
    missing.map(|path| Finding { path, line: 1, message: message.to_owned() }).collect()
}

/// No algorithm reads a clock, locks, waits or needs the standard library. Comments may say so,
/// and tests may do so.
pub(super) fn pure(file: &File) -> Vec<Finding> {
    let is_algorithm = |name: &str| {
        let Some(rest) = file.path.strip_prefix(&format!("{FOLDER}/{name}")) else {
            return false;
        };
        file.extension() == "rs" && (rest == ".rs" || rest.starts_with('/'))
    };
    if !ALGORITHMS.iter().any(|name| is_algorithm(name)) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, line) in file.lines().take_while(|(_, line)| line.trim() != "#[cfg(test)]") {
        let code = line.split("//").next().unwrap_or_default();
        if let Some(word) = IMPURE.iter().find(|word| mentions(code, word)) {
            let message = format!("algorithm mentions `{word}`; pass what it needs as an argument");
            findings.push(file.finding(number, message));
        }
    }
    findings
}

/// Whether `part` is a whole word of the code, or of a name in it: `clock` in `the_clock` and
/// `SystemClock`, not in `block`.
fn mentions(code: &str, part: &str) -> bool {
    let mut name_parts = code.split(|c: char| !c.is_alphanumeric()).flat_map(|word| {
        // `SystemClock` counts as itself and as its end from each capital on.
        let capitals = word.char_indices().filter(|(at, c)| *at > 0 && c.is_uppercase());
        let ends = capitals.filter_map(|(at, _)| word.get(at..));
        ends.chain([word]).map(str::to_lowercase)
    });
    name_parts.any(|word| word == part || (part == "atomic" && word.starts_with(part)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found;

    #[test]
    fn impure_algorithm_fires() {
        for bad in [
            "use std::time::Duration;",
            "fn f(clock: &impl Clock) {",
            "let now = system_clock();",
            "let t = SystemClock;",
            "x: AtomicU64,",
            "let g = self.lock();",
            "let t: Instant = x;",
            "async fn f() {",
            "f().await;",
        ] {
            let file = File::sample("crates/limiter-core/src/gcra.rs", &format!("//! Doc\n{bad}"));
            assert_eq!(found(&pure(&file)), [(file.path.as_str(), 2)], "{bad}");
        }
    }

    #[test]
    fn pure_algorithm_and_other_files_are_silent() {
        let good = "//! Reads no clock.\nlet block = a; // no lock\n#[cfg(test)]\nuse std::time;";
        assert!(pure(&File::sample("crates/limiter-core/src/gcra.rs", good)).is_empty());
        assert!(
            pure(&File::sample("crates/limiter-core/src/clock.rs", "trait Clock {}")).is_empty()
        );
    }

    #[test]
    fn algorithm_in_a_folder_is_held_to_the_rule() {
        let file = File::sample("crates/limiter-core/src/gcra/tat.rs", "use std::mem;");
        assert_eq!(pure(&file).len(), 1);
    }

    #[test]
    fn missing_algorithm_fires() {
        assert_eq!(all_present(&Tree::sample(&[])).len(), ALGORITHMS.len());
        let path = |name: &&str| format!("{FOLDER}/{name}.rs");
        let files: Vec<File> =
            ALGORITHMS.iter().map(|name| File::sample(&path(name), "")).collect();
        assert!(all_present(&Tree(files)).is_empty());
    }
}
