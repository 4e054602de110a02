//! The modules of a crate import each other in one direction: its files, and its folders.

mod circle;
mod modules;
mod uses;

use self::circle::Edge;
use self::modules::Modules;
use super::{Finding, Tree};

/// The crates whose files and folders are checked. In the others, some files still import each other: `host` and
/// `layer` in `limiter-client`, `main` and `arguments` in `limiter-doctor`.
const FILES: [&str; 6] = [
    "crates/limiter-core/src",
    "crates/limiter-redis/src",
    "crates/limiter-rig/src",
    "crates/limiter-sim/src",
    "crates/limiter-test/src",
    "crates/limiter-tower/src",
];

/// Neither files nor sibling folders of a crate import each other in a circle. A folder includes the file
/// of its name: `memory.rs` belongs to `memory/`. A parent may import its children. Re-exports are not
/// imports, and an import of a re-exported item counts for the file that defines it.
pub(super) fn has_no_circles(tree: &Tree) -> Vec<Finding> {
    FILES.iter().flat_map(|krate| circles(tree, krate)).collect()
}

/// Returns a finding for each circle, at its first import.
fn circles(tree: &Tree, krate: &str) -> Vec<Finding> {
    let modules = Modules::read(tree, krate);
    let imports = modules.imports();
    let mut findings = report(imports.iter().map(Edge::between_files));
    findings.extend(report(imports.iter().filter_map(Edge::between_siblings)));
    // A circle of siblings without folders was found as a circle of files too.
    findings.sort_by(|a, b| a.message.cmp(&b.message));
    findings.dedup_by(|a, b| a.message == b.message);
    findings
}

fn report<'a>(edges: impl Iterator<Item = Edge<'a>>) -> Vec<Finding> {
    let circles = circle::circles(edges).into_iter();
    let findings = circles.filter_map(|circle| {
        let Edge { import, .. } = circle.first()?;
        let edges = circle.iter().map(describe).collect::<Vec<_>>().join(", ");
        let message = format!(
            "modules import each other in a circle: {edges}; move what they share to a module of its \
             own"
        );
        Some(import.file.finding(import.item.line, message))
    });
    findings.collect()
}

fn describe(Edge { from, to, import }: &Edge<'_>) -> String {
    let name =
        |path: &[String]| if path.is_empty() { "the root".to_owned() } else { path.join("/") };
    let (item, path, line) = (import.item.path.join("::"), &import.file.path, import.item.line);
    format!("{} imports {} ({path}:{line}: {item})", name(from), name(to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{File, found};

    const LIB: &str = "crates/limiter-core/src/lib.rs";
    const ONE: &str = "crates/limiter-core/src/one.rs";
    const TWO: &str = "crates/limiter-core/src/two.rs";
    const INNER: &str = "crates/limiter-core/src/one/inner.rs";

    fn faults(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        let tree = Tree::sample(files);
        let findings = has_no_circles(&tree);
        found(&findings).into_iter().map(|(path, line)| (path.to_owned(), line)).collect()
    }

    #[test]
    fn circle_fires_once() {
        let files = [
            (LIB, "mod one;\nmod two;\npub use two::Two;"),
            (ONE, "//! One.\nuse crate::Two;\npub struct One;"),
            (TWO, "use super::one::{\n    One as Other,\n};\npub struct Two;"),
        ];
        assert_eq!(faults(&files), [(ONE.to_owned(), 2)]);
    }

    #[test]
    fn longer_circle_fires() {
        let files = [
            (LIB, "mod one;"),
            (ONE, "mod inner;\nuse inner::Inner;"),
            (INNER, "use super::other::Other;"),
            ("crates/limiter-core/src/one/other.rs", "use super::One;"),
        ];
        assert_eq!(faults(&files), [(ONE.to_owned(), 2)]);
    }

    #[test]
    fn one_direction_and_reexports_are_silent() {
        let files = [
            (LIB, "mod one;\nmod two;\npub use one::One;\npub use two::Two;"),
            (
                ONE,
                "mod inner;\npub(crate) use inner::Inner;\n/// use crate::Two;\nconst X: u8 = 1;",
            ),
            (
                INNER,
                "use super::X;\nuse core::fmt;\n#[cfg(test)]\nmod tests {\n    use crate::Two;",
            ),
            (TWO, "use crate::{One, one::{self, Inner}};\nuse std::{fmt, two::Two};"),
        ];
        assert_eq!(faults(&files), []);
    }

    #[test]
    fn crates_are_apart_and_other_files_are_silent() {
        let other = ("crates/limiter-tower/src/lib.rs", "mod one;\nuse one::One;");
        assert_eq!(faults(&[(ONE, "use crate::Lib;"), (LIB, "mod one;"), other]), []);
        assert_eq!(
            faults(&[("crates/limiter-core/tests/it/main.rs", "mod a;\nuse crate::a::A;")]),
            []
        );
    }

    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        let files = files.iter().map(|(path, text)| (format!("a/src/{path}"), *text));
        let files: Vec<_> = files.map(|(path, text)| File::sample(&path, text)).collect();
        circles(&Tree(files), "a/src").into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn circle_of_folders_fires_with_the_imports_that_make_it() {
        let files = [
            ("lib.rs", "mod one;\nmod two;\npub use two::Two;"),
            ("one.rs", "mod inner;\nmod other;\npub struct One;"),
            ("one/inner.rs", "use core::fmt;\nuse crate::Two;"),
            ("one/other.rs", "use crate::two::Two;"),
            ("two.rs", "mod inner;\npub struct Two;"),
            ("two/inner.rs", "use crate::one::One;"),
        ];
        assert_eq!(
            messages(&files),
            ["modules import each other in a circle: one imports two (a/src/one/inner.rs:2: \
              crate::Two), two imports one (a/src/two/inner.rs:1: crate::one::One); move what they \
              share to a module of its own"]
        );
    }

    #[test]
    fn circle_below_the_root_fires() {
        let files = [
            ("main.rs", "mod one;"),
            ("one.rs", "mod a;\nmod b;"),
            ("one/a.rs", "mod inner;"),
            ("one/a/inner.rs", "use super::super::b::B;"),
            ("one/b.rs", "use super::a::A;"),
        ];
        let messages = messages(&files);
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(messages.iter().all(|message| message.contains("one/a imports one/b (")));
    }

    #[test]
    fn circle_of_files_and_of_siblings_fires_once() {
        let files = [
            ("lib.rs", "mod one;\nmod two;\nmod three;"),
            ("one.rs", "use crate::two::Two;"),
            ("two.rs", "use crate::three::Three;"),
            ("three.rs", "use crate::one::One;"),
        ];
        assert_eq!(messages(&files).len(), 1);
    }

    #[test]
    fn parents_and_one_direction_of_folders_are_silent() {
        let files = [
            (
                "lib.rs",
                "mod one;\nmod two;\nuse one::One;\npub use two::Two;\npub use one::inner::X;",
            ),
            ("one.rs", "mod inner;\nuse inner::Inner;\npub use crate::two::Two;"),
            ("one/inner.rs", "use crate::two::inner::Inner;"),
            ("two.rs", "mod inner;\nuse self::inner::Inner;"),
            ("two/inner.rs", "#[cfg(test)]\nmod tests {\n    use crate::one::One;"),
        ];
        assert_eq!(messages(&files), [""; 0]);
    }
}
