//! Links in documents lead somewhere.

use super::{File, Finding, Tree};

/// Each relative link in a Markdown file names a file or folder of the repository, and each anchor a heading of its file.
/// What a README or a chapter links to, rustdoc finds, too. Whether other sites exist is not checked, nor are items, which
/// rustdoc checks.
pub(super) fn resolves(tree: &Tree) -> Vec<Finding> {
    let documents = tree.0.iter().filter(|file| file.extension() == "md");
    documents.flat_map(|file| faults(tree, file)).collect()
}

fn faults(tree: &Tree, file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let source = rustdoc_source(tree, file);
    for (number, line) in prose(file) {
        let bare: String = line.split('`').step_by(2).collect();
        let definition = definition(&bare);
        let inline = bare.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
        for target in inline.chain(definition).filter(|target| is_path(target)) {
            let is_dead = |source: &&File| {
                let label = line.split_once(": ").filter(|_| definition.is_some());
                let is_defined = |(label, _)| source.text.contains(&format!("{label}: "));
                !target.starts_with('#') && !label.is_some_and(is_defined)
            };
            let in_rustdoc = source.filter(is_dead).map(|source| {
                let remedy = "write [text][label], and define the label here and in";
                format!("{target} is dead in rustdoc; {remedy} {}", source.path)
            });
            let fault = fault(tree, file, target).or(in_rustdoc);
            findings.extend(fault.map(|message| file.finding(number, message)));
        }
    }
    findings
}

/// Whether it is a path or an anchor, and not an address or an item's name.
fn is_path(target: &str) -> bool {
    !target.contains([':', '@']) && target.contains(['/', '.', '#'])
}

/// What is wrong with a link, if anything is.
fn fault(tree: &Tree, file: &File, target: &str) -> Option<String> {
    let (name, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if name.is_empty() { file.path.clone() } else { resolve(&file.path, name) };
    let is_there = |it: &File| {
        it.path.strip_prefix(&path).is_some_and(|it| it.is_empty() || it.starts_with('/'))
    };
    if !path.is_empty() && !tree.0.iter().any(is_there) {
        return Some(format!("dead link to {name}; there is no {path}"));
    }
    // Only Markdown has headings.
    let document = tree.get(&path).filter(|it| it.extension() == "md" && target.contains('#'))?;
    let known = anchors(document);
    let is_known = known.iter().any(|known| known == anchor);
    (!is_known).then(|| format!("dead link to {target}; the headings are {}", known.join(", ")))
}

/// Returns the source file that includes the document, and has to define its links to other files.
fn rustdoc_source<'a>(tree: &'a Tree, file: &File) -> Option<&'a File> {
    if let Some((krate, _)) = file.path.split_once("/docs/guide/") {
        return tree.get(&format!("{krate}/src/guide.rs"));
    }
    let krate = file.path.strip_suffix("/README.md")?;
    let source = tree.get(&format!("{krate}/src/lib.rs"))?;
    source.text.contains("#![doc = include_str!(\"../README.md\")]").then_some(source)
}

/// The target of a line that defines a link: `[name]: target`. Without what is between backticks, the name may be empty.
fn definition(line: &str) -> Option<&str> {
    let (_, target) = line.strip_prefix('[')?.split_once("]: ")?;
    target.split(' ').next()
}

/// The anchors of a document's headings, as GitHub makes them: in lower case, without punctuation, with hyphens for spaces,
/// and numbered if headings are equal.
fn anchors(document: &File) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for (_, line) in prose(document) {
        let Some((marks, title)) = line.split_once(' ') else { continue };
        if marks.is_empty() || marks.bytes().any(|byte| byte != b'#') {
            continue;
        }
        // Of a link, the text.
        let parts = title.trim().split("](").enumerate();
        let parts = parts.map(|(index, part)| match index {
            0 => part,
            _ => part.split_once(')').map_or("", |(_, rest)| rest),
        });
        let characters = parts.flat_map(str::chars).flat_map(char::to_lowercase);
        let kept = characters.filter(|char| char.is_alphanumeric() || " -_".contains(*char));
        let anchor: String = kept.map(|char| if char == ' ' { '-' } else { char }).collect();
        let free = (0..).map(|number| match number {
            0 => anchor.clone(),
            number => format!("{anchor}-{number}"),
        });
        anchors.extend(free.into_iter().find(|it| !anchors.contains(it)));
    }
    anchors
}

/// The lines outside of code blocks, with their numbers.
fn prose(file: &File) -> Vec<(usize, &str)> {
    let mut in_code = false;
    let lines = file.lines().filter(|(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    });
    lines.collect()
}

/// The path from the root that `target` means in the file at `path`.
pub(super) fn resolve(path: &str, target: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found;

    fn faults(text: &str) -> usize {
        let part = "# A part of it\n# A part, of it!";
        let files = [("docs/guide.md", text), ("docs/a/b.md", part), ("LICENSE", "")];
        resolves(&Tree::sample(&files)).len()
    }

    #[test]
    fn dead_links_and_anchors_fire() {
        for bad in [
            "[x](b.md)",
            "[x](../docs/c.md \"title\")",
            "a [y](./a) [x](a/c.md#part)",
            "[x]: ../NO",
            "[`x`](b.md) and `[y](c.md)`",
            "```\n```\n[x](b.md)",
            "[x](a/b.md#parts)",
            "# Part\n[x](#part-1)",
            "```\n# part\n```\n[x](#part)",
            "[x](guide.md#)",
            "#part\n[x](#part)",
        ] {
            assert_eq!(faults(bad), 1, "{bad}");
        }
    }

    #[test]
    fn live_and_foreign_links_are_silent() {
        for good in [
            "[x](a/b.md) [y](a/) [z](../LICENSE#L3) [w](..)",
            "[x]: a/b.md",
            "[x](a/b.md#a-part-of-it) [x](./a/b.md#a-part-of-it-1)",
            "# 2. By `API` key, else (by) user_id\n[x](#2-by-api-key-else-by-user_id)",
            "## [Text](a/b.md) & more\n[x](#text--more)",
            "[x](https://example.com/a.md?b=c#part) <http://127.0.0.1:3000/>",
            "[`Quota`] and [x](Quota) [y](struct@a.b)",
            "```\nlet x = [a](b.md);\n```\n`[a](b.md)`",
        ] {
            assert_eq!(faults(good), 0, "{good}");
        }
    }

    #[test]
    fn link_that_rustdoc_has_not_fires() {
        let path = "crates/a/docs/guide/b.md";
        let guide = ("crates/a/src/guide.rs", "//! [`Quota`]: crate::Quota");
        for (text, count) in [
            ("[`Quota`]: b.md", 0),
            ("[`Policy`]: b.md", 1),
            ("[policy](b.md) [a](https://example.com) `[x](b.md)`", 1),
            ("[x](#a-part)\n# A part", 0),
        ] {
            let findings = resolves(&Tree::sample(&[(path, text), guide]));
            assert_eq!(found(&findings).len(), count, "{text}: {findings:?}");
        }
        let readme = ("crates/a/README.md", "[`Policy`]: README.md");
        let shown = ("crates/a/src/lib.rs", "#![doc = include_str!(\"../README.md\")]");
        assert!(resolves(&Tree::sample(&[readme])).is_empty());
        assert_eq!(found(&resolves(&Tree::sample(&[readme, shown]))), [(readme.0, 1)]);
    }
}
