//! Each crate says what it is, to those who search for it and to those who open it.

use super::{File, Finding, Tree};

/// Each crate has a description, and its root opens with documentation.
pub(super) fn described(tree: &Tree) -> Vec<Finding> {
    let manifests = tree.0.iter().filter_map(|file| Some((file, crate_folder(file)?)));
    manifests.flat_map(|(manifest, folder)| faults(tree, manifest, folder)).collect()
}

fn faults(tree: &Tree, manifest: &File, folder: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !manifest.text.lines().any(is_description) {
        findings.push(manifest.finding(1, "no description; add one sentence on what it is for"));
    }
    let Some(root) = tree.get(&format!("{folder}/src/lib.rs")) else {
        return findings;
    };
    let opening = root.text.lines().next().unwrap_or_default();
    let documented = opening.strip_prefix("//!").is_some_and(is_sentence)
        || opening.starts_with("#![doc = include_str!(")
        || opening.starts_with("#![cfg_attr(") && root.text.contains("\n//! ");
    if !documented {
        findings
            .push(root.finding(1, "no documentation on the first line; say what the crate does"));
    }
    findings
}

/// The folder of a library of the workspace, by its manifest.
fn crate_folder(file: &File) -> Option<&str> {
    let folder = file.path.strip_suffix("/Cargo.toml")?;
    folder.starts_with("crates/").then_some(folder)
}

fn is_description(line: &str) -> bool {
    let value = line.strip_prefix("description").map(str::trim_start);
    value.and_then(|value| value.strip_prefix('=')).is_some_and(is_sentence)
}

/// Whether this is more than the placeholder of an empty crate.
fn is_sentence(text: &str) -> bool {
    text.split_whitespace().count() > 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found;

    const TOML: &str = "crates/a/Cargo.toml";
    const LIB: &str = "crates/a/src/lib.rs";

    #[test]
    fn described_crate_is_silent() {
        let manifest = "[package]\ndescription = \"Limits the rate of things.\"";
        for lib in ["//! Limits the rate of things.", "#![doc = include_str!(\"../README.md\")]"] {
            assert!(described(&Tree::sample(&[(TOML, manifest), (LIB, lib)])).is_empty(), "{lib}");
        }
    }

    #[test]
    fn missing_and_empty_words_fire() {
        for (manifest, lib) in [("[package]", "pub mod a;"), ("description = \"x\"", "//! x")] {
            let tree = Tree::sample(&[(TOML, manifest), (LIB, lib)]);
            assert_eq!(found(&described(&tree)), [(TOML, 1), (LIB, 1)], "{manifest} {lib}");
        }
    }

    #[test]
    fn other_manifests_are_silent() {
        assert!(described(&Tree::sample(&[("Cargo.toml", "[workspace]")])).is_empty());
    }
}
