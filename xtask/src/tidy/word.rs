//! Words that no file contains: those of one workplace, and riddles.

use super::{File, Finding};

/// Words of one workplace, in two pieces each, because the rule applies to this file too.
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

/// Phrases that name nothing, in two pieces each.
const RIDDLES: [&str; 7] = [
    concat!("is no ", "number"),
    concat!("nothing ", "speaks"),
    concat!("speaks for ", "another"),
    concat!("the short ", "way"),
    concat!("waits its ", "turn"),
    concat!("what is ", "rare"),
    concat!("within a ", "moment"),
];

/// No word of the workplace and no riddle, in either case.
pub(super) fn none_forbidden(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        let lower = line.to_lowercase();
        for word in FORBIDDEN.iter().filter(|word| lower.contains(*word)) {
            let message = format!("`{word}` holds in one workplace only; write what holds in any");
            findings.push(file.finding(number, message));
        }
        for riddle in RIDDLES.iter().filter(|riddle| lower.contains(*riddle)) {
            let message = format!("`{riddle}` is a riddle; name the thing with the field's word");
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
        for word in FORBIDDEN.iter().chain(&RIDDLES) {
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
