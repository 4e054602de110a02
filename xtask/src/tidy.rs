//! `cargo xtask tidy`: the rules of this repository that no compiler checks.
//!
//! A rule is a function from a file, or from all files, to its findings. Each has a test by a bad
//! sample, which has findings, and a good one, which has none.

mod algorithm;
mod code;
mod figure;
mod import;
mod krate;
pub(crate) mod link;
mod map;
mod script;

use std::fs;

use anyhow::{Result, ensure};
use xshell::{Shell, cmd};

/// Rules that look at one file.
const FILE_RULES: &[fn(&File) -> Vec<Finding>] = &[
    code::short,
    code::finished,
    code::no_silencing,
    code::no_ignored_tests,
    code::tests_named_by_outcome,
    algorithm::pure,
    figure::reproducible,
];

/// Rules that look at one file beside another.
const TREE_RULES: &[fn(&Tree) -> Vec<Finding>] = &[
    script::has_contract,
    script::is_sent,
    import::has_no_circles,
    link::resolves,
    figure::measured,
    krate::described,
    map::is_complete,
    map::examples_are_tested,
    map::chapters_are_listed,
    map::packages_apart_are_checked,
    map::modules_are_declared,
];

/// A file of the repository, its path relative to the root.
struct File {
    path: String,
    text: String,
}

/// All text files of the repository.
struct Tree(Vec<File>);

/// A breach of a rule: where it is, and what to do about it.
struct Finding {
    path: String,
    line: usize,
    message: String,
}

/// Prints all findings, and fails if there are any.
pub(crate) fn run(shell: &Shell, arguments: &[String]) -> Result<()> {
    ensure!(arguments.is_empty(), "tidy takes no arguments");
    let findings = findings(&read(shell)?);
    for Finding { path, line, message } in &findings {
        println!("{path}:{line}: {message}");
    }
    ensure!(findings.is_empty(), "{} breaches of the rules", findings.len());
    Ok(())
}

/// Applies all rules.
fn findings(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = TREE_RULES.iter().flat_map(|rule| rule(tree)).collect();
    for file in &tree.0 {
        findings.extend(FILE_RULES.iter().flat_map(|rule| rule(file)));
    }
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    findings
}

/// Reads all files that git tracks, and those that it neither tracks nor ignores.
fn read(shell: &Shell) -> Result<Tree> {
    let paths = cmd!(shell, "git ls-files -z -co --exclude-standard").quiet().read()?;
    let files = paths.split_terminator('\0').filter_map(|path| {
        // Deleted and binary files are skipped.
        let text = fs::read_to_string(shell.current_dir().join(path)).ok()?;
        Some(File { path: path.to_owned(), text })
    });
    Ok(Tree(files.collect()))
}

impl File {
    /// The file's extension, without the dot.
    fn extension(&self) -> &str {
        self.path.rsplit_once('.').map_or("", |(_, extension)| extension)
    }

    /// The lines with their numbers.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    fn finding(&self, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: self.path.clone(), line, message: message.into() }
    }

    /// A finding with the same message for each line that is bad.
    fn lines_where(&self, bad: impl Fn(&str) -> bool, message: &str) -> Vec<Finding> {
        let bad = self.lines().filter(|(_, line)| bad(line));
        bad.map(|(number, _)| self.finding(number, message)).collect()
    }
}

impl Tree {
    fn get(&self, path: &str) -> Option<&File> {
        self.0.iter().find(|file| file.path == path)
    }

    fn has_folder(&self, path: &str) -> bool {
        self.0
            .iter()
            .any(|file| file.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')))
    }
}

#[cfg(test)]
impl File {
    fn sample(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }
}

#[cfg(test)]
impl Tree {
    fn sample(files: &[(&str, &str)]) -> Self {
        Self(files.iter().map(|(path, text)| File::sample(path, text)).collect())
    }
}

/// The lines that a rule finds fault with, for tests.
#[cfg(test)]
fn found(findings: &[Finding]) -> Vec<(&str, usize)> {
    findings.iter().map(|finding| (finding.path.as_str(), finding.line)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::workspace::ROOT;

    /// A mistake in this repository: the place, and what the finding says.
    struct Mistake {
        path: String,
        says: &'static str,
    }

    /// Changes the first file that `edit` returns a text for.
    fn make(
        tree: &mut Tree,
        says: &'static str,
        edit: impl Fn(&File) -> Option<String>,
    ) -> Mistake {
        let mut edited = tree.0.iter_mut().filter_map(|file| Some((edit(file)?, file)));
        let (text, file) = edited.next().unwrap();
        file.text = text;
        Mistake { path: file.path.clone(), says }
    }

    /// Appends a digit to the first figure that is linked to a benchmark page.
    fn with_a_wrong_figure(file: &File) -> Option<String> {
        let is_document = file.path.starts_with("crates/") && file.extension() == "md";
        let (before, _) = file.text.split_once(" <!-- docs/benchmarks/").filter(|_| is_document)?;
        let digit = before.rfind(|char: char| char.is_ascii_digit())?;
        let mut text = file.text.clone();
        text.insert(digit + 1, '9');
        Some(text)
    }

    fn with_a_dead_link(file: &File) -> Option<String> {
        let text = file.text.replacen("](docs/", "](docs/gone/", 1);
        (file.path == "README.md").then_some(text)
    }

    fn without_a_description(file: &File) -> Option<String> {
        let text = file.text.replacen("\ndescription = ", "\n# description = ", 1);
        (file.path == "crates/limiter-core/Cargo.toml").then_some(text)
    }

    #[test]
    fn each_mistake_in_this_repository_is_found() {
        let shell = Shell::new().unwrap();
        shell.change_dir(ROOT);
        let key = |it: &Finding| (it.path.clone(), it.message.clone());
        let mut tree = read(&shell).unwrap();
        let before: BTreeSet<_> = findings(&tree).iter().map(key).collect();
        let mistakes = [
            make(&mut tree, "is not in", with_a_wrong_figure),
            make(&mut tree, "docs/gone/", with_a_dead_link),
            make(&mut tree, "no description", without_a_description),
        ];
        let after: BTreeSet<_> = findings(&tree).iter().map(key).collect();
        for Mistake { path, says } in &mistakes {
            let mut new = after.difference(&before);
            let found = new.any(|(of, message)| of == path && message.contains(says));
            assert!(found, "{path} {says}: {:?}", after.difference(&before));
        }
        assert_eq!(after.difference(&before).count(), mistakes.len());
    }
}
