//! Relative links in documents lead somewhere.

use super::{File, Finding, Tree};

/// Each relative link in a Markdown file, or in one that is included as documentation, names a
/// file or folder of the repository.
pub(super) fn resolves(tree: &Tree) -> Vec<Finding> {
    let included: Vec<String> = tree.0.iter().flat_map(included).collect();
    let documents = tree.0.iter();
    let documents =
        documents.filter(|file| file.extension() == "md" || included.contains(&file.path));
    documents.flat_map(|file| dead_links(tree, file)).collect()
}

fn dead_links(tree: &Tree, file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut in_code = false;
    for (number, line) in file.lines() {
        in_code ^= line.trim_start().starts_with("```");
        for target in links(line).into_iter().filter(|target| !in_code && is_path(target)) {
            let target = target.split('#').next().unwrap_or_default();
            let path = resolve(&file.path, target);
            if !path.is_empty() && tree.get(&path).is_none() && !tree.has_folder(&path) {
                let message = format!("dead link to {target}; there is no {path}");
                findings.push(file.finding(number, message));
            }
        }
    }
    findings
}

/// What the links of a line lead to: `[text](target "title")` and `[name]: target`.
fn links(line: &str) -> Vec<&str> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let definition = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
    let definition = definition.and_then(|(_, rest)| rest.split(' ').next());
    inline.chain(definition).collect()
}

/// Whether it is a path, and not an address, a place on the same page or an item's name.
fn is_path(target: &str) -> bool {
    let elsewhere = target.contains(':') || target.starts_with('#') || target.contains('@');
    !elsewhere && target.contains(['/', '.'])
}

/// The path from the root that `target` means in the file at `path`.
fn resolve(path: &str, target: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// The documents that a source file takes its documentation from.
fn included(file: &File) -> Vec<String> {
    let lines = file.text.lines().filter(|_| file.extension() == "rs").map(str::trim_start);
    let targets = lines.filter_map(|line| {
        let rest = line.strip_prefix("#![doc = include_str!(\"")?;
        rest.split('"').next()
    });
    targets.map(|target| resolve(&file.path, target)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found;

    fn faults(text: &str) -> usize {
        let files = [("docs/guide.md", text), ("docs/a/b.md", ""), ("LICENSE", "")];
        found(&resolves(&Tree::sample(&files))).len()
    }

    #[test]
    fn dead_link_fires() {
        for bad in [
            "[x](b.md)",
            "[x](../docs/c.md \"title\")",
            "a [y](./a) [x](a/c.md#part)",
            "[x]: ../NO",
        ] {
            assert_eq!(faults(bad), 1, "{bad}");
        }
    }

    #[test]
    fn live_and_foreign_links_are_silent() {
        for good in [
            "[x](a/b.md) [y](a/) [z](../LICENSE)",
            "[x]: a/b.md#part",
            "[x](https://example.com/a.md) [y](#part)",
            "[`Quota`]: crate::Quota\n[x](Quota) [y](struct@a.b)",
            "```\nlet x = [a](b.md);\n```",
        ] {
            assert_eq!(faults(good), 0, "{good}");
        }
    }

    #[test]
    fn included_document_is_held_to_the_rule() {
        let document = ("crates/a/guide.txt", "[x](no.md)");
        let source = ("crates/a/src/lib.rs", "#![doc = include_str!(\"../guide.txt\")]");
        assert!(resolves(&Tree::sample(&[document])).is_empty());
        assert_eq!(found(&resolves(&Tree::sample(&[document, source]))), [(document.0, 1)]);
    }
}
