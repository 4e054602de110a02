//! Algorithms are pure: they are given the time and a state, and nothing else.

use super::{Finding, Tree};

/// Where the core keeps its algorithms, and what they share.
const FOLDER: &str = "crates/limiter-core/src/algorithm";

/// What an algorithm's code does not mention, as a word or a part of a name.
const IMPURE: [&str; 9] =
    ["clock", "lock", "mutex", "atomic", "instant", "systemtime", "std", "async", "await"];

/// What may be compiled only with the standard library, as long as it does not use it.
const CONDITION: &str = "#[cfg(feature = \"std\")]";

/// No algorithm reads a clock, locks, waits or needs the standard library. Comments may mention
/// these, and tests may use them.
pub(super) fn pure(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let files = tree.0.iter().filter(|it| it.path.starts_with(FOLDER) && it.extension() == "rs");
    for file in files {
        let code = file.lines().take_while(|(_, line)| line.trim() != "#[cfg(test)]");
        for (number, line) in code.filter(|(_, line)| line.trim() != CONDITION) {
            let code = line.split("//").next().unwrap_or_default();
            if let Some(word) = IMPURE.iter().find(|word| mentions(code, word)) {
                let message =
                    format!("algorithm mentions `{word}`; pass what it needs as an argument");
                findings.push(file.finding(number, message));
            }
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
            let path = "crates/limiter-core/src/algorithm/gcra.rs";
            let tree = Tree::sample(&[(path, &format!("//! Doc\n{bad}"))]);
            assert_eq!(found(&pure(&tree)), [(path, 2)], "{bad}");
        }
    }

    #[test]
    fn pure_algorithm_and_other_files_are_silent() {
        let good = "//! Reads no clock.\nlet block = a; // no lock\n#[cfg(feature = \"std\")]\n\
                    fn f() {}\n#[cfg(test)]\nuse std::time;";
        let algorithm = ("crates/limiter-core/src/algorithm/gcra.rs", good);
        let other = ("crates/limiter-core/src/clock.rs", "trait Clock {}");
        assert_eq!(found(&pure(&Tree::sample(&[algorithm, other]))), []);
    }
}
