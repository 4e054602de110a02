//! The repository speaks of the project, and not of the place it was written in.

use super::{File, Finding};

/// In two pieces each: the rule applies to this file too.
const FORBIDDEN: [&str; 11] = [
    concat!("developer ", "session"),
    concat!("sub", "agent"),
    concat!("sub-", "agent"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/wo", "rk/"),
    concat!("static.", "crates.io"),
    concat!("index.", "crates.io"),
    concat!("pypi", ".org"),
    concat!("deb.", "debian.org"),
    concat!("registry.", "npmjs.org"),
];

/// No word of the workplace, in either case.
pub(super) fn none_forbidden(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        let lower = line.to_lowercase();
        for word in FORBIDDEN.iter().filter(|word| lower.contains(*word)) {
            let message = format!("`{word}` is of one workplace; say it so that it holds in any");
            findings.push(file.finding(number, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found;

    #[test]
    fn each_forbidden_word_fires_in_either_case() {
        for word in FORBIDDEN {
            let file = File::sample("README.md", &format!("Hello,\nsee {}x", word.to_uppercase()));
            assert_eq!(found(&none_forbidden(&file)), [("README.md", 2)], "{word}");
        }
    }

    #[test]
    fn plain_words_are_silent() {
        let good = "Root, home and work: https://crates.io/crates/limiter-core, `./framework/x`";
        assert!(none_forbidden(&File::sample("README.md", good)).is_empty());
    }
}
