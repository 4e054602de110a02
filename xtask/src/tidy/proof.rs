//! The tests that the proof names exist.

use super::{File, Finding, Tree};

const PROOF: &str = "docs/proof.md";
const COMPARED: &str = "docs/compared.md";

/// Rows of the comparison that say no more than what a release is.
const FACTS: [&str; 3] = ["what it is", "released", "oldest Rust"];

/// Each link of the proof from `` `name` `` to a Rust file names a function or a row of that file, and one to a text file names
/// a row. Each row of its lists of tests has such a link, and each property of the comparison with others has a row there.
pub(super) fn names_tests(tree: &Tree) -> Vec<Finding> {
    let (Some(proof), Some(compared)) = (tree.get(PROOF), tree.get(COMPARED)) else {
        return Vec::new();
    };
    let mut findings = absent(tree, proof);
    let listed: Vec<_> = rows(proof, "## Tests of").collect();
    let untested = listed.iter().filter(|(_, line)| tests(line).next().is_none());
    findings.extend(untested.map(|(number, _)| {
        proof.finding(*number, "no test; write one, and link it as [`name`](path)")
    }));
    let has_row = |label: &str| listed.iter().any(|(_, line)| label_of(line) == label);
    let missing = rows(compared, "# ").filter(|(_, line)| {
        let label = label_of(line);
        !FACTS.contains(&label) && !has_row(label)
    });
    findings.extend(missing.map(|(number, line)| {
        let message = format!("{PROOF} has no row {:?} with its test", label_of(line));
        compared.finding(number, message)
    }));
    findings
}

/// The tests that it names and that do not exist.
fn absent(tree: &Tree, file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        for (name, target) in tests(line) {
            let path = super::link::resolve(&file.path, target);
            let forms = [format!("fn {name}("), format!("\"{name}\""), format!("\n{name}: ")];
            let has_it = |it: &File| forms.iter().any(|form| it.text.contains(form));
            if !tree.get(&path).is_some_and(has_it) {
                let message = format!("{path} has no test {name}; name the one that replaced it");
                findings.push(file.finding(number, message));
            }
        }
    }
    findings
}

/// The names and paths in a line's links from `` [`name`] `` to Rust files and rows.
fn tests(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.split("[`").skip(1).filter_map(|link| {
        let (name, rest) = link.split_once("`](")?;
        let (target, _) = rest.split_once(')')?;
        let has_tests = [".rs", ".txt"].iter().any(|extension| target.ends_with(extension));
        has_tests.then_some((name, target))
    })
}

/// The rows of the tables below headings that begin so, with their numbers, without heads and rules.
fn rows<'a>(file: &'a File, heading: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    let mut is_below = false;
    let mut is_head = true;
    file.lines().filter(move |(_, line)| {
        if line.starts_with('#') {
            is_below = line.starts_with(heading);
        }
        let is_row = line.starts_with('|');
        let is_body = is_row && !is_head && !line.starts_with("|-");
        is_head = !is_row;
        is_below && is_body
    })
}

/// The first cell of a row.
fn label_of(row: &str) -> &str {
    row.split('|').nth(1).unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found;

    #[test]
    fn a_row_without_a_test_that_exists_fires() {
        let code = [
            ("a/b.rs", "fn admits() {}\nname: \"a_case\","),
            ("a/b.txt", "# Rows\n\na_row: 1/s\n"),
        ];
        let head = "## Tests of systems\n\n| what | test |\n|---|---|\n";
        let compared =
            (COMPARED, "# Compared\n\n| | a |\n|---|---|\n| released | no |\n| peek | yes |\n");
        for (rows, expected) in [
            (
                "| peek | [`admits`](../a/b.rs), [`a_row`](../a/b.txt), [`a_case`](../a/b.rs) |",
                &[][..],
            ),
            ("| peek | [`admit`](../a/b.rs) |", &[(PROOF, 5)]),
            ("| peek | [`admits`](../a/c.rs) |", &[(PROOF, 5)]),
            ("| peek | `admits` |", &[(PROOF, 5)]),
            ("| check | [`admits`](../a/b.rs) |", &[(COMPARED, 6)]),
        ] {
            let [functions, table] = code;
            let tree = [(PROOF, &*format!("{head}{rows}")), compared, functions, table];
            assert_eq!(found(&names_tests(&Tree::sample(&tree))), expected, "{rows}");
        }
    }
}
