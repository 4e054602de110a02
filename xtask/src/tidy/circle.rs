//! The modules of a crate import each other in one direction: its files, and its folders.

use std::collections::{BTreeMap, BTreeSet};

use super::{File, Finding, Tree};

/// The crates that are checked. In the others, some files still import each other: `main` and `arguments` in
/// `limiter-doctor`, `cluster` and `server` in `limiter-double`.
const CRATES: [&str; 7] = [
    "limiter-client",
    "limiter-core",
    "limiter-redis",
    "limiter-rig",
    "limiter-sim",
    "limiter-test",
    "limiter-tower",
];

/// A module, by its names from the crate's root, which has none.
type Path = Vec<String>;

struct Module<'a> {
    file: &'a File,
    uses: Vec<Use>,
}

/// An import, and the name that it gives.
struct Use {
    path: Path,
    name: String,
    is_public: bool,
}

/// What imports lead from one module to another, and the first of them in words.
type Edges = BTreeMap<(Path, Path), String>;

/// Neither files nor sibling folders of a crate import each other in a circle; a shortest one is reported. A folder includes
/// the file of its name: `memory.rs` belongs to `memory/`. A parent may import its children. Re-exports are not
/// imports, and an import of a re-exported item counts for the file that defines it.
pub(super) fn has_no_circles(tree: &Tree) -> Vec<Finding> {
    let findings = CRATES.iter().filter_map(|krate| {
        let folder = format!("crates/{krate}/src/");
        let modules = modules(tree, &folder);
        let (mut files, mut siblings) = (Edges::new(), Edges::new());
        for (from, Module { file, uses }) in &modules {
            for import in uses.iter().filter(|import| !import.is_public) {
                let Some(to) = resolve(&modules, from, &import.path, 16) else { continue };
                if to == *from {
                    continue;
                }
                let words = format!("{} imports {}", file.path, import.path.join("::"));
                let shared = from.iter().zip(&to).take_while(|(from, to)| from == to).count();
                if let (Some(from), Some(to)) = (from.get(..=shared), to.get(..=shared)) {
                    let edge = (from.to_vec(), to.to_vec());
                    siblings.entry(edge).or_insert_with(|| words.clone());
                }
                files.entry((from.clone(), to)).or_insert(words);
            }
        }
        let circle = circle(&files).or_else(|| circle(&siblings))?;
        let message = format!("modules import each other in a circle: {circle}");
        Some(Finding { path: folder, line: 0, message })
    });
    findings.collect()
}

fn modules<'a>(tree: &'a Tree, folder: &str) -> BTreeMap<Path, Module<'a>> {
    let modules = tree.0.iter().filter_map(|file| {
        let path = file.path.strip_prefix(folder)?.strip_suffix(".rs")?;
        let path = if matches!(path, "lib" | "main") { "" } else { path };
        let path = path.split_terminator('/').map(str::to_owned).collect();
        Some((path, Module { file, uses: uses(&file.text) }))
    });
    modules.collect()
}

/// Returns the imports of a file but for those of tests in it. What is not Rust has none: the compiler says so.
fn uses(text: &str) -> Vec<Use> {
    let items = syn::parse_file(text).map(|file| file.items).unwrap_or_default();
    let mut uses = Vec::new();
    for item in items {
        if let syn::Item::Use(item) = item {
            let is_public = !matches!(item.vis, syn::Visibility::Inherited);
            expand(&item.tree, &[], is_public, &mut uses);
        }
    }
    uses
}

fn expand(tree: &syn::UseTree, prefix: &[String], is_public: bool, uses: &mut Vec<Use>) {
    let joined = |name: &syn::Ident| [prefix, &[name.to_string()]].concat();
    let (path, name) = match tree {
        syn::UseTree::Path(path) => {
            return expand(&path.tree, &joined(&path.ident), is_public, uses);
        }
        syn::UseTree::Group(group) => {
            return group.items.iter().for_each(|tree| expand(tree, prefix, is_public, uses));
        }
        syn::UseTree::Glob(_) => (prefix.to_vec(), "*".to_owned()),
        syn::UseTree::Name(name) if name.ident == "self" => {
            (prefix.to_vec(), prefix.last().cloned().unwrap_or_default())
        }
        syn::UseTree::Name(name) => (joined(&name.ident), name.ident.to_string()),
        syn::UseTree::Rename(rename) => (joined(&rename.ident), rename.rename.to_string()),
    };
    uses.push(Use { path, name, is_public });
}

/// Returns the module that defines what `path` means in a module, or `None` if it is of another crate.
fn resolve(
    modules: &BTreeMap<Path, Module<'_>>,
    from: &Path,
    path: &[String],
    reexports: usize,
) -> Option<Path> {
    let reexport = |at: &Path, name: &String| {
        modules.get(at)?.uses.iter().find(|it| it.name == *name && it.path != *path)
    };
    let child = |at: &Path, name: &String| {
        let child = [at.as_slice(), std::slice::from_ref(name)].concat();
        modules.contains_key(&child).then_some(child)
    };
    let (mut here, mut rest) = (from.clone(), path);
    match path.first()?.as_str() {
        "crate" => (here, rest) = (Path::new(), path.get(1..)?),
        "self" => rest = path.get(1..)?,
        "super" => {
            while rest.first().is_some_and(|name| name == "super") {
                here.pop()?;
                rest = rest.get(1..)?;
            }
        }
        _ => {
            let name = path.first()?;
            if child(&here, name).is_none() && reexport(&here, name).is_none() {
                return None;
            }
        }
    }
    while let Some((name, behind)) = rest.split_first() {
        if let Some(child) = child(&here, name) {
            (here, rest) = (child, behind);
        } else if let Some(item) = reexport(&here, name).filter(|_| reexports > 0) {
            let target = [item.path.as_slice(), behind].concat();
            return resolve(modules, &here, &target, reexports - 1);
        } else {
            break;
        }
    }
    Some(here)
}

/// Returns a shortest circle, in words.
fn circle(edges: &Edges) -> Option<String> {
    let shortest = edges.iter().filter_map(|((from, to), words)| {
        let mut paths = vec![(to, vec![words.as_str()])];
        let mut seen = BTreeSet::from([to]);
        let mut index = 0;
        while let Some((end, words)) = paths.get(index).cloned() {
            if end == from {
                return Some(words);
            }
            for ((_, next), more) in edges.iter().filter(|((from, _), _)| from == end) {
                if seen.insert(next) {
                    paths.push((next, [words.as_slice(), &[more]].concat()));
                }
            }
            index += 1;
        }
        None
    });
    Some(shortest.min_by_key(Vec::len)?.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        let path = |path: &str| format!("crates/limiter-core/src/{path}");
        let files: Vec<_> = files.iter().map(|(name, text)| (path(name), *text)).collect();
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        has_no_circles(&Tree::sample(&files)).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn circles_of_files_and_of_folders_fire() {
        for bad in [
            // Through a re-export, with an alias.
            &[
                ("lib.rs", "mod one;\nmod two;\npub use two::Two;"),
                ("one.rs", "use crate::Two;\npub struct One;"),
                ("two.rs", "use super::one::{One as Other, self};\npub struct Two;"),
            ][..],
            // Of a parent and two of its children.
            &[
                ("lib.rs", "mod one;"),
                ("one.rs", "mod inner;\nuse inner::Inner;"),
                ("one/inner.rs", "use super::other::Other;"),
                ("one/other.rs", "use super::One;"),
            ],
            // Of folders, through different files.
            &[
                ("lib.rs", "mod one;\nmod two;\npub use two::Two;"),
                ("one.rs", "mod inner;\nmod other;\npub struct One;"),
                ("one/inner.rs", "use core::fmt;\nuse crate::Two;"),
                ("one/other.rs", "use crate::two::Two;"),
                ("two.rs", "mod inner;\npub struct Two;"),
                ("two/inner.rs", "use crate::one::One;"),
            ],
            // Below the root.
            &[
                ("main.rs", "mod one;"),
                ("one.rs", "mod a;\nmod b;"),
                ("one/a.rs", "mod inner;"),
                ("one/a/inner.rs", "use super::super::b::B;"),
                ("one/b.rs", "use super::a::A;"),
            ],
            // Of three.
            &[
                ("lib.rs", "mod one;\nmod two;\nmod three;"),
                ("one.rs", "use crate::two::Two;"),
                ("two.rs", "use crate::three::Three;"),
                ("three.rs", "use crate::one::One;"),
            ],
        ] {
            assert_eq!(messages(bad).len(), 1, "{bad:?}");
        }
    }

    #[test]
    fn parents_one_direction_reexports_and_tests_are_silent() {
        let good = [
            (
                "lib.rs",
                "mod one;\nmod two;\nuse one::One;\npub use two::Two;\npub use one::inner::X;",
            ),
            ("one.rs", "mod inner;\nuse inner::Inner;\npub use crate::two::Two;"),
            ("one/inner.rs", "use crate::two::inner::Inner;"),
            ("two.rs", "mod inner;\nuse self::inner::Inner;\nuse std::{fmt, two::Two};"),
            ("two/inner.rs", "#[cfg(test)]\nmod tests {\n    use crate::one::One;\n}"),
        ];
        assert_eq!(messages(&good), [""; 0]);
    }
}
