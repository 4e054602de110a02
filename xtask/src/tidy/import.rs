//! The files of a crate import each other in one direction.

mod modules;
mod uses;

use self::modules::{Import, Modules};
use super::{Finding, Tree};

/// The crates that are checked. In the others, some files still import each other.
const CHECKED: [&str; 2] = ["crates/limiter-core/src", "crates/limiter-redis/src"];

/// No files of a crate import each other in a circle. Re-exports are not imports, and an import of a
/// re-exported item counts for the file that defines it.
pub(super) fn has_no_circles(tree: &Tree) -> Vec<Finding> {
    CHECKED.iter().flat_map(|folder| circles(tree, folder)).collect()
}

/// Returns a finding for the first circle through each file that begins one.
fn circles(tree: &Tree, folder: &str) -> Vec<Finding> {
    let modules = Modules::read(tree, folder);
    let imports = modules.imports();
    let mut reported: Vec<usize> = Vec::new();
    let mut findings = Vec::new();
    for first in &imports {
        if reported.contains(&first.from) {
            continue;
        }
        let Some(circle) = shortest_path(&imports, first.to, first.from) else { continue };
        let names = circle.iter().map(|file| modules.name(*file)).collect::<Vec<_>>().join(", ");
        let message = format!(
            "files import each other in a circle: {}, {names}; move what both need to a file of \
             its own",
            modules.name(first.from)
        );
        findings.push(modules.file(first.from).finding(first.line, message));
        reported.extend(circle);
    }
    findings
}

/// Returns the files on a shortest way along imports, both ends included.
fn shortest_path(imports: &[Import], from: usize, to: usize) -> Option<Vec<usize>> {
    let mut paths = vec![vec![from]];
    let mut index = 0;
    while let Some(path) = paths.get(index).cloned() {
        let last = *path.last()?;
        if last == to {
            return Some(path);
        }
        for next in imports.iter().filter(|import| import.from == last).map(|import| import.to) {
            if !paths.iter().any(|path| path.last() == Some(&next)) {
                paths.push(path.iter().copied().chain([next]).collect());
            }
        }
        index += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found;

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
            (LIB, "mod one;\nmod two;"),
            (ONE, "mod inner;\nuse crate::two;"),
            (TWO, "use crate::one::inner::Inner;"),
            (INNER, "use super::One;"),
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
}
