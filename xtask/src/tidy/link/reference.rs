//! References in brackets, which need a definition wherever a document is shown.

use super::{included, is_path, links, prose, without_code};
use crate::tidy::{File, Finding, Tree};

/// The references of a README or a chapter without a definition in it.
pub(super) fn undefined(file: &File) -> Vec<Finding> {
    if !file.path.contains("/docs/guide/") && !file.path.ends_with("README.md") {
        return Vec::new();
    }
    let prose = prose(file);
    let defined: Vec<_> =
        prose.iter().filter_map(|(_, line)| Some(normal(definition(line)?.0))).collect();
    let mut findings = Vec::new();
    for lines in prose.split(|(_, line)| line.trim().is_empty()) {
        let text = lines.iter().map(|(_, line)| *line).collect::<Vec<_>>().join("\n");
        for label in references(&text) {
            // A label that is wrapped is found at the first line of its paragraph.
            let at = lines.iter().find(|(_, line)| line.contains(label)).or(lines.first());
            if !defined.contains(&normal(label)) {
                let remedy = "define it in this file, or write it without brackets";
                let message = format!("undefined reference [{label}]; {remedy}");
                findings.push(file.finding(at.map_or(1, |line| line.0), message));
            }
        }
    }
    findings
}

/// What a file that rustdoc shows links to other files, unless what includes it defines another target.
pub(super) fn undefined_for_rustdoc(tree: &Tree, file: &File) -> Vec<Finding> {
    let source = match (file.path.split_once("/docs/guide/"), file.path.split_once("/README.md")) {
        (Some((krate, _)), _) => tree.get(&format!("{krate}/src/guide.rs")),
        (None, Some((krate, _))) => tree
            .get(&format!("{krate}/src/lib.rs"))
            .filter(|source| included(source).contains(&file.path)),
        (None, None) => None,
    };
    let Some(source) = source else { return Vec::new() };
    let mut findings = Vec::new();
    for (number, line) in prose(file) {
        let line = without_code(line);
        let to_files = links(&line).into_iter().filter(|target| is_path(target));
        if definition(&line).is_none() {
            let remedy =
                "write [text][label], and define the label here and where this is included";
            findings.extend(to_files.map(|target| {
                file.finding(number, format!("link to {target} that is dead in rustdoc; {remedy}"))
            }));
        }
    }
    let definitions = prose(file).into_iter();
    let definitions = definitions.filter_map(|(number, line)| Some((number, definition(line)?)));
    let to_files = definitions.filter(|(_, (_, target))| is_path(target));
    let unknown = to_files.filter(|(_, (label, _))| !source.text.contains(&format!("[{label}]: ")));
    let message = |label: &str| {
        let path = &source.path;
        format!("definition of [{label}] that is dead in rustdoc; define it above, too, in {path}")
    };
    findings.extend(unknown.map(|(number, (label, _))| file.finding(number, message(label))));
    findings
}

/// The labels of `[label]` and `[text][label]`.
fn references(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['`', '[', '\\']) {
        let (before, from) = rest.split_at(at);
        let begins_line = before.ends_with('\n') || rest.len() == text.len() && at == 0;
        if let Some(after) = from.strip_prefix('[') {
            let Some((label, after)) = label(after) else { break };
            rest = after;
            if let Some((target, behind)) = after.strip_prefix('[').and_then(self::label) {
                found.push(if target.is_empty() { label } else { target });
                rest = behind;
            } else {
                let is_definition = begins_line && definition(from).is_some();
                if !is_definition && !after.starts_with('(') {
                    found.push(label);
                }
            }
        } else {
            rest = after_code(from);
        }
    }
    found
}

/// Splits the text behind a `[` at the `]` that is not in code.
fn label(text: &str) -> Option<(&str, &str)> {
    let mut rest = text;
    loop {
        let (_, from) = rest.split_at(rest.find(['`', ']', '\\'])?);
        if let Some(after) = from.strip_prefix(']') {
            return Some((text.get(..text.len() - from.len())?, after));
        }
        rest = after_code(from);
    }
}

/// What follows the code that the text begins with, or the character behind a backslash.
fn after_code(text: &str) -> &str {
    let marks = text.len() - text.trim_start_matches('`').len();
    let (mark, rest) = text.split_at(marks);
    if mark.is_empty() {
        return rest.get(2..).unwrap_or_default();
    }
    rest.split_once(mark).map_or(rest, |(_, after)| after)
}

/// The label and the target of a line that defines a link.
pub(super) fn definition(line: &str) -> Option<(&str, &str)> {
    let (label, rest) = label(line.strip_prefix('[')?)?;
    Some((label, rest.strip_prefix(": ")?.split([' ', '\n']).next()?))
}

/// A label as it is compared.
fn normal(label: &str) -> String {
    label.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{found, link::resolves};

    /// How many findings a document at `path` has.
    fn undefined_in(path: &str, text: &str) -> usize {
        let files = [(path, text), ("crates/a/src/guide.rs", "//! [`Quota`]: crate::Quota")];
        found(&resolves(&Tree::sample(&files))).len()
    }

    const SHOWN: [&str; 3] = ["README.md", "crates/b/README.md", "crates/a/docs/guide/b.md"];

    #[test]
    fn undefined_reference_fires() {
        for bad in [
            "[`Quota`]",
            "a [`Quota`]: b",
            "[the quota][`Quota`]",
            "[a\nquota][quota] b",
            "`x` [quota][] `[y]`",
            "```\n[`Quota`]: https://example.com\n```\n[`Quota`]",
            "[`Policy`]: https://example.com\n\n[`Policy`] and [`Quota`]",
        ] {
            for path in SHOWN {
                assert_eq!(undefined_in(path, bad), 1, "{path} {bad}");
            }
        }
    }

    #[test]
    fn defined_reference_is_silent() {
        for good in [
            "[`Quota`] and [the\nquota][`quota`]\n\n[`Quota`]: https://example.com",
            "`[x]` and `a\n[y]` and ``[`x`]`` and \\[z]",
            "[a](https://example.com) [`b`](https://example.com) [c",
            "```\n[api]\n```",
        ] {
            for path in SHOWN {
                assert_eq!(undefined_in(path, good), 0, "{path} {good}");
            }
        }
        assert_eq!(undefined_in("docs/adding.md", "[*nothing*]"), 0);
    }

    #[test]
    fn definition_that_rustdoc_has_not_fires() {
        let path = "crates/a/docs/guide/b.md";
        assert_eq!(undefined_in(path, "[`Quota`]: b.md"), 0);
        assert_eq!(undefined_in(path, "[`Policy`]: b.md"), 1);
        assert_eq!(undefined_in(path, "[`Policy`]: https://example.com [x](#a-part)\n# A part"), 0);
        assert_eq!(undefined_in(path, "[policy](b.md) [a](https://example.com) `[x](b.md)`"), 1);

        let readme = ("crates/a/README.md", "[`Policy`]: README.md");
        let shown = ("crates/a/src/lib.rs", "#![doc = include_str!(\"../README.md\")]");
        assert!(resolves(&Tree::sample(&[readme])).is_empty());
        assert_eq!(found(&resolves(&Tree::sample(&[readme, shown]))), [(readme.0, 1)]);
    }
}
