//! The `use` declarations of a file.

/// One imported name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) line: usize,
    /// As written, without an alias: `super`, `one`, `One`.
    pub(super) path: Vec<String>,
    /// The name that it has in the file.
    pub(super) name: String,
    pub(super) is_public: bool,
}

/// Returns the declarations of a file up to its tests.
pub(super) fn read(text: &str) -> Vec<Use> {
    let mut uses = Vec::new();
    // The declaration that is not complete yet, and its first line.
    let mut open: Option<(usize, String)> = None;
    let mut is_test = false;
    for (index, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default().trim();
        if is_test && code.starts_with("mod ") && code.ends_with('{') {
            break;
        }
        is_test = code == "#[cfg(test)]";
        if open.is_none() && is_declaration(code) {
            open = Some((index + 1, String::new()));
        }
        if let Some((_, declaration)) = &mut open {
            declaration.push_str(code);
            declaration.push(' ');
        }
        if code.ends_with(';')
            && let Some((line, declaration)) = open.take()
        {
            uses.extend(expand(line, &declaration));
        }
    }
    uses
}

fn is_declaration(code: &str) -> bool {
    let rest = match code.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')').map_or("", |(_, rest)| rest),
        Some(rest) => rest,
        None => code,
    };
    rest.trim_start().starts_with("use ")
}

fn expand(line: usize, declaration: &str) -> Vec<Use> {
    let (visibility, tree) = declaration.split_once("use ").unwrap_or_default();
    let tree = tree.trim().trim_end_matches(';');
    let is_public = visibility.starts_with("pub");
    let paths = paths(tree, &[]);
    paths.into_iter().map(|(path, name)| Use { line, path, name, is_public }).collect()
}

/// Returns the paths of a tree with the names that they get.
fn paths(tree: &str, prefix: &[String]) -> Vec<(Vec<String>, String)> {
    let tree = tree.trim();
    if let Some((start, group)) = tree.split_once('{') {
        let group = group.trim_end().strip_suffix('}').unwrap_or(group);
        let prefix = joined(prefix, start);
        return split(group).into_iter().flat_map(|tree| paths(tree, &prefix)).collect();
    }
    if tree.is_empty() {
        return Vec::new();
    }
    let (path, alias) = tree.split_once(" as ").map_or((tree, None), |(p, a)| (p, Some(a.trim())));
    let mut path = joined(prefix, path);
    if prefix.len() < path.len() && path.last().is_some_and(|last| last == "self") && path.len() > 1
    {
        path.pop();
    }
    let name = alias.map(str::to_owned).or_else(|| path.last().cloned()).unwrap_or_default();
    vec![(path, name)]
}

fn joined(prefix: &[String], path: &str) -> Vec<String> {
    let segments = path.split("::").map(str::trim).filter(|segment| !segment.is_empty());
    prefix.iter().cloned().chain(segments.map(str::to_owned)).collect()
}

/// Splits a group at the commas that are not inside of a further group.
fn split(group: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let is_end = |letter: char| {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    };
    group.split(is_end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_aliases_and_self_are_read() {
        let text = "pub(crate) use a::{b::{self, C}, d as e};\n    use super::*; // f";
        let uses = read(text);
        let read: Vec<_> = uses
            .iter()
            .map(|item| (item.line, item.path.join("::"), item.name.as_str(), item.is_public))
            .collect();
        assert_eq!(
            read,
            [
                (1, "a::b".to_owned(), "b", true),
                (1, "a::b::C".to_owned(), "C", true),
                (1, "a::d".to_owned(), "e", true),
                (2, "super::*".to_owned(), "*", false),
            ]
        );
    }
}
