//! Links in documents lead somewhere.

mod reference;

use std::collections::HashMap;

use self::reference::{definition, undefined, undefined_for_rustdoc};
use super::{File, Finding, Tree};

/// Each relative link in a Markdown file, or in one that is included as documentation, names a
/// file or folder of the repository, and each anchor a heading of its file. Addresses of other sites
/// are well-formed; nothing asks whether they exist. Readers outside of rustdoc find a definition for each reference
/// of a README or a chapter, and rustdoc finds another one that leads to the item.
pub(super) fn resolves(tree: &Tree) -> Vec<Finding> {
    let included: Vec<String> = tree.0.iter().flat_map(included).collect();
    let documents = tree.0.iter();
    let documents =
        documents.filter(|file| file.extension() == "md" || included.contains(&file.path));
    documents
        .flat_map(|file| {
            let mut findings = dead_links(tree, file);
            if file.extension() == "md" {
                findings.extend(undefined(file));
                findings.extend(undefined_for_rustdoc(tree, file));
            }
            findings
        })
        .collect()
}

fn dead_links(tree: &Tree, file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in prose(file) {
        let line = without_code(line);
        let faults = links(&line).into_iter().filter_map(|target| fault(tree, file, target));
        findings.extend(faults.map(|message| file.finding(number, message)));
    }
    findings
}

/// What is wrong with a link, if anything is.
fn fault(tree: &Tree, file: &File, target: &str) -> Option<String> {
    if let Some((scheme, rest)) = target.split_once("://") {
        let remedy = "write it as https://host/path";
        return (!is_address(scheme, rest)).then(|| format!("malformed link {target}; {remedy}"));
    }
    if target.starts_with('#') {
        return anchor_fault(file, target);
    }
    if !is_path(target) {
        // A link that only rustdoc resolves is dead wherever else a Markdown file is shown.
        let is_item = target.contains("::") && file.extension() == "md";
        let remedy = "write [`item`], and define it where the file is included";
        return is_item.then(|| format!("link to the item {target}; {remedy}"));
    }
    let (name, anchor) = target.find('#').map_or((target, ""), |at| target.split_at(at));
    let path = resolve(&file.path, name);
    match tree.get(&path) {
        Some(document) if !anchor.is_empty() => anchor_fault(document, anchor),
        None if !path.is_empty() && !tree.has_folder(&path) => {
            Some(format!("dead link to {name}; there is no {path}"))
        }
        _ => None,
    }
}

/// What is wrong with a link to `anchor`, with its `#`, in `document`. Only Markdown has headings.
fn anchor_fault(document: &File, anchor: &str) -> Option<String> {
    let known = anchors(document);
    if document.extension() != "md" || known.iter().any(|known| anchor[1..] == **known) {
        return None;
    }
    let path = &document.path;
    Some(format!("dead link to {anchor}; {path} has the headings: {}", known.join(", ")))
}

/// The anchors of a document's headings.
fn anchors(document: &File) -> Vec<String> {
    slugs(document).into_iter().map(|(_, slug)| slug).collect()
}

/// The depth of a heading.
pub(super) fn is_heading(line: &str) -> Option<usize> {
    let (marks, _) = line.split_once(' ')?;
    let is_heading = marks.len() <= 6 && marks.bytes().all(|byte| byte == b'#');
    (is_heading && !marks.is_empty()).then_some(marks.len())
}

/// The anchors of a document's headings with the numbers of their lines, as GitHub makes them: in lower case, without
/// punctuation, with hyphens for spaces, and numbered if two headings are equal.
pub(super) fn slugs(document: &File) -> Vec<(usize, String)> {
    let mut seen = HashMap::new();
    let titles = prose(document).into_iter().filter_map(|(number, line)| {
        let depth = is_heading(line)?;
        Some((number, line.get(depth + 1..)?))
    });
    let slugs = titles.map(|(number, title)| {
        // Of a link, the text.
        let parts = title.trim().split("](").enumerate();
        let parts = parts.map(|(index, part)| match index {
            0 => part,
            _ => part.split_once(')').map_or("", |(_, rest)| rest),
        });
        let characters = parts.flat_map(str::chars).flat_map(char::to_lowercase);
        let kept = characters.filter(|char| char.is_alphanumeric() || " -_".contains(*char));
        (number, kept.map(|char| if char == ' ' { '-' } else { char }).collect::<String>())
    });
    let numbered = slugs.map(|(line, slug)| {
        let earlier = seen.entry(slug.clone()).or_insert(0);
        *earlier += 1;
        match *earlier {
            1 => (line, slug),
            number => (line, format!("{slug}-{}", number - 1)),
        }
    });
    numbered.collect()
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

/// The line without what is between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// What the links of a document lead to.
pub(crate) fn targets(text: &str) -> Vec<String> {
    let file = File { path: String::new(), text: text.to_owned() };
    let lines = prose(&file).into_iter().map(|(_, line)| without_code(line));
    lines.flat_map(|line| links(&line).into_iter().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// What the links of a line lead to: `[text](target "title")`, `[name]: target` and `<https://...>`.
fn links(line: &str) -> Vec<&str> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let definition = definition(line).map(|(_, target)| target);
    let bare = line.split('<').skip(1).filter_map(|rest| rest.split_once('>'));
    // A space is in the attributes of an HTML element.
    let is_link = |target: &&str| target.contains("://") && !target.contains(' ');
    let bare = bare.map(|(target, _)| target).filter(is_link);
    inline.chain(definition).chain(bare).collect()
}

/// Whether `scheme://rest` is the address of a page: a known scheme, a host, and no character that has to
/// be escaped.
fn is_address(scheme: &str, rest: &str) -> bool {
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let name = host.split(':').next().unwrap_or_default();
    let has_name = name.split('.').all(|label| !label.is_empty())
        && name.chars().all(|char| char.is_ascii_alphanumeric() || ".-".contains(char));
    let is_escaped =
        rest.chars().all(|char| char.is_ascii_graphic() && !"<>\"\\^`{|}".contains(char));
    matches!(scheme, "http" | "https") && has_name && is_escaped
}

/// Whether it is a path, and not an item's name.
fn is_path(target: &str) -> bool {
    !target.contains([':', '@']) && target.contains(['/', '.'])
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
        let part = "# A part of it\n# A part, of it!";
        let files = [("docs/guide.md", text), ("docs/a/b.md", part), ("LICENSE", "")];
        found(&resolves(&Tree::sample(&files))).len()
    }

    #[test]
    fn dead_link_fires() {
        for bad in [
            "[x](b.md)",
            "[x](../docs/c.md \"title\")",
            "a [y](./a) [x](a/c.md#part)",
            "[x]: ../NO",
            "[`x`](b.md) and `[y](c.md)`",
            "```\n```\n[x](b.md)",
            "[`Quota`](crate::Quota)",
        ] {
            assert_eq!(faults(bad), 1, "{bad}");
        }
    }

    #[test]
    fn dead_anchor_fires() {
        for bad in [
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
    fn live_anchor_is_silent() {
        for good in [
            "[x](a/b.md#a-part-of-it) [x](./a/b.md#a-part-of-it-1)",
            "# 2. By `API` key, else (by) user_id\n[x](#2-by-api-key-else-by-user_id)",
            "## [Text](a/b.md) & more\n[x](#text--more)",
            "[x](../LICENSE#L3)",
        ] {
            assert_eq!(faults(good), 0, "{good}");
        }
    }

    #[test]
    fn malformed_address_fires() {
        for bad in [
            "[x](https:///a)",
            "[x](htps://example.com)",
            "<https://exa_mple.com>",
            "[x]: http://a..b",
        ] {
            assert_eq!(faults(bad), 1, "{bad}");
        }
    }

    #[test]
    fn live_and_foreign_links_are_silent() {
        for good in [
            "[x](a/b.md) [y](a/) [z](../LICENSE)",
            "[x]: a/b.md",
            "[x](https://example.com/a.md?b=c#part) <http://127.0.0.1:3000/>",
            "[`Quota`] and [x](Quota) [y](struct@a.b)",
            "```\nlet x = [a](b.md);\n```",
            "`[a](b.md)`",
            "<svg width=\"1\" xmlns=\"http://www.w3.org/2000/svg\">",
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
