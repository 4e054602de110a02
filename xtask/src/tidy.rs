//! `cargo xtask tidy`: the rules of this repository that no compiler checks.
//!
//! A rule is a function from all files to its findings. Each has a test by bad samples, which have findings, and good
//! ones, which have none.

mod algorithm;
mod circle;
mod file;
mod link;
mod proof;

use std::fs;

use anyhow::{Result, ensure};
use xshell::{Shell, cmd};

const RULES: [fn(&Tree) -> Vec<Finding>; 6] = [
    file::short,
    file::included,
    algorithm::pure,
    circle::has_no_circles,
    link::resolves,
    proof::names_tests,
];

/// A file of the repository, its path relative to the root.
struct File {
    path: String,
    text: String,
}

/// All text files of the repository.
struct Tree(Vec<File>);

/// A breach of a rule: where it is, and what to do about it.
#[derive(Debug)]
struct Finding {
    path: String,
    line: usize,
    message: String,
}

/// Prints all findings, and fails if there are any.
pub(crate) fn run(shell: &Shell, arguments: &[&str]) -> Result<()> {
    ensure!(arguments.is_empty(), "tidy takes no arguments");
    // Files that git tracks, and those that it neither tracks nor ignores.
    let paths = cmd!(shell, "git ls-files -z -co --exclude-standard").quiet().read()?;
    let files = paths.split_terminator('\0').filter_map(|path| {
        // Deleted and binary files are skipped.
        let text = fs::read_to_string(shell.current_dir().join(path)).ok()?;
        Some(File { path: path.to_owned(), text })
    });
    let tree = Tree(files.collect());
    let findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(&tree)).collect();
    for Finding { path, line, message } in &findings {
        println!("{path}:{line}: {message}");
    }
    ensure!(findings.is_empty(), "{} breaches of the rules", findings.len());
    Ok(())
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
}

impl Tree {
    fn get(&self, path: &str) -> Option<&File> {
        self.0.iter().find(|file| file.path == path)
    }
}

#[cfg(test)]
impl Tree {
    fn sample(files: &[(&str, &str)]) -> Self {
        let file =
            |&(path, text): &(&str, &str)| File { path: path.to_owned(), text: text.to_owned() };
        Self(files.iter().map(file).collect())
    }
}

/// The lines that a rule finds fault with, for tests.
#[cfg(test)]
fn found(findings: &[Finding]) -> Vec<(&str, usize)> {
    findings.iter().map(|finding| (finding.path.as_str(), finding.line)).collect()
}
