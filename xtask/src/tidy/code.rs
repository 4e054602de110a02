//! What code looks like, whatever it does.

use super::{File, Finding};

const MAX_LINES: usize = 400;

/// Marks of work left undone, in two pieces: the rule applies to this file too.
const UNFINISHED: [&str; 5] = [
    concat!("to", "do!"),
    concat!("unimpl", "emented!"),
    concat!("FIX", "ME"),
    concat!("TO", "DO"),
    concat!("X", "XX"),
];

/// What other files are put together to.
const GENERATED: &str = "docs/scripts/";

/// No file is longer than two ideas take.
pub(super) fn short(file: &File) -> Vec<Finding> {
    let count = file.text.lines().count();
    let is_code = matches!(file.extension(), "rs" | "lua") && !file.path.starts_with(GENERATED);
    if !is_code || count <= MAX_LINES {
        return Vec::new();
    }
    let message = format!("{count} lines, over {MAX_LINES}; move its second idea to another file");
    vec![file.finding(MAX_LINES + 1, message)]
}

/// Nothing is left for later.
pub(super) fn finished(file: &File) -> Vec<Finding> {
    if file.path == "Cargo.lock" {
        return Vec::new();
    }
    let unfinished = |line: &str| UNFINISHED.iter().any(|mark| has_word(line, mark));
    file.lines_where(unfinished, "unfinished; finish it, or remove it and open an issue")
}

/// Lints are expected to fire, for a reason, and not switched off.
pub(super) fn no_silencing(file: &File) -> Vec<Finding> {
    let remedy = "say why with `#[expect(LINT, reason = \"...\")]`";
    let attributes = attributes(file).into_iter();
    let faults = attributes.filter_map(|(line, text)| {
        if has_word(&text, "allow") && text.contains("allow(") {
            Some(file.finding(line, format!("lint switched off; {remedy}")))
        } else if text.contains("expect(") && !text.contains("reason") {
            Some(file.finding(line, format!("expected lint without a reason; {remedy}")))
        } else {
            None
        }
    });
    faults.collect()
}

/// A test runs, or a task runs it.
pub(super) fn no_ignored_tests(file: &File) -> Vec<Finding> {
    let by_task = |text: &str| {
        file.path.starts_with("examples/") && text.contains("run by cargo xtask examples --full")
    };
    let attributes = attributes(file).into_iter();
    attributes
        .filter(|(_, text)| has_word(text, "ignore") && !text.contains("rustfmt"))
        .filter(|(_, text)| !by_task(text))
        .map(|(line, _)| file.finding(line, "ignored test; make it run, or delete it"))
        .collect()
}

/// The name of a test says what comes out.
pub(super) fn tests_named_by_outcome(file: &File) -> Vec<Finding> {
    let named_test = |line: &str| {
        let line = line.trim_start();
        let line = line.strip_prefix("pub ").unwrap_or(line);
        line.strip_prefix("async ").unwrap_or(line).starts_with("fn test_")
    };
    let message = "test named after what it tests; name it by its outcome";
    if file.extension() == "rs" { file.lines_where(named_test, message) } else { Vec::new() }
}

/// The attributes that begin a line, with that line's number, each joined to one line.
fn attributes(file: &File) -> Vec<(usize, String)> {
    let mut attributes: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    let lines = file.lines().filter(|_| file.extension() == "rs");
    for (number, line) in lines.map(|(number, line)| (number, line.trim())) {
        match attributes.last_mut() {
            Some((_, text)) if open => text.push_str(line),
            _ if line.starts_with("#[") || line.starts_with("#![") => {
                attributes.push((number, line.to_owned()));
            }
            _ => continue,
        }
        let balance = attributes.last().map_or(0, |(_, text)| balance(text));
        open = balance > 0;
    }
    attributes
}

fn balance(text: &str) -> isize {
    let step = |bracket| match bracket {
        '[' => 1,
        ']' => -1,
        _ => 0,
    };
    text.chars().map(step).sum()
}

/// Whether `word` stands in `line` with no letter or digit next to it.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line.get(..at).unwrap_or_default();
        let after = line.get(at + word.len()..).unwrap_or_default();
        !before.ends_with(part_of_word) && !after.starts_with(part_of_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found;

    fn rust(text: &str) -> File {
        File::sample("src/a.rs", text)
    }

    #[test]
    fn long_file_fires() {
        assert_eq!(found(&short(&rust(&"\n".repeat(401)))), [("src/a.rs", 401)]);
        assert!(short(&rust(&"\n".repeat(400))).is_empty());
        assert!(short(&File::sample("a.md", &"\n".repeat(401))).is_empty());
    }

    #[test]
    fn each_unfinished_mark_fires() {
        for mark in UNFINISHED {
            assert_eq!(
                finished(&rust(&format!("fn f() {{\n    {mark}() // later"))).len(),
                1,
                "{mark}"
            );
        }
        assert!(finished(&rust(concat!("// Do it, to", "dos.\nlet X", "XXL = 1;"))).is_empty());
    }

    #[test]
    fn silenced_lint_fires() {
        for bad in [
            "#[allow(dead_code)]",
            "#![allow(\n    dead_code\n)]",
            "#[expect(dead_code)]",
            "#[cfg_attr(test, allow(dead_code))]",
            "#[expect(\n    dead_code,\n    unused\n)]",
        ] {
            assert_eq!(
                found(&no_silencing(&rust(&format!("\n{bad}\nfn f() {{}}")))),
                [("src/a.rs", 2)],
                "{bad}"
            );
        }
        for good in [
            "#[expect(dead_code, reason = \"x\")]",
            "#[derive(Debug)]",
            "// #[allow(x)]",
            "#[expect(\n    dead_code,\n    reason = \"x\"\n)]",
            "#[doc = \"allow\"]",
            "x.expect(\"y\");",
        ] {
            assert!(no_silencing(&rust(good)).is_empty(), "{good}");
        }
    }

    #[test]
    fn ignored_test_fires() {
        for bad in ["#[ignore]", "    #[ignore = \"slow\"]", "#[cfg_attr(miri, ignore)]"] {
            assert_eq!(no_ignored_tests(&rust(bad)).len(), 1, "{bad}");
        }
        assert!(no_ignored_tests(&rust("#[test]\nfn ignore() {}")).is_empty());
        let by_task = "#[ignore = \"takes 3 min; run by cargo xtask examples --full\"]";
        assert_eq!(no_ignored_tests(&rust(by_task)).len(), 1);
        let example = File::sample("examples/a/tests/example.rs", by_task);
        assert!(no_ignored_tests(&example).is_empty());
    }

    #[test]
    fn name_without_an_outcome_fires() {
        for bad in ["fn test_gcra() {", "    async fn test_gcra() {", "pub fn test_x() {"] {
            assert_eq!(tests_named_by_outcome(&rust(bad)).len(), 1, "{bad}");
        }
        assert!(
            tests_named_by_outcome(&rust("fn refusal_costs_nothing() {\nlatest_x()")).is_empty()
        );
    }
}
