//! Files are short, and something includes each of them.

use super::{File, Finding, Tree};

const MAX_LINES: usize = 400;

/// No file of code is longer than two ideas take.
pub(super) fn short(tree: &Tree) -> Vec<Finding> {
    let code = tree.0.iter().filter(|file| matches!(file.extension(), "rs" | "lua"));
    let long = code.filter(|file| file.lines().count() > MAX_LINES);
    let message = "over 400 lines; move its second idea to another file";
    long.map(|file| file.finding(MAX_LINES + 1, message)).collect()
}

/// Each file below a module is declared by it, and each chapter is a part of its crate's guide. One that is not is never
/// compiled.
pub(super) fn included(tree: &Tree) -> Vec<Finding> {
    let forgotten = tree.0.iter().filter(|file| {
        let Some((folder, name)) = file.path.rsplit_once('/') else { return false };
        if let Some(krate) = folder.strip_suffix("/docs/guide") {
            let guide = tree.get(&format!("{krate}/src/guide.rs"));
            let name = name.trim_end_matches(".md");
            let is_word = |c: char| c.is_alphanumeric() || "-_".contains(c);
            return guide
                .is_some_and(|guide| !guide.text.split(|c| !is_word(c)).any(|it| it == name));
        }
        let name = name.strip_suffix(".rs").filter(|it| !["lib", "main", "mod"].contains(it));
        let Some(name) = name else { return false };
        let above = [".rs", "/lib.rs", "/main.rs", "/mod.rs"];
        let mut above =
            above.iter().filter_map(|end| tree.get(&format!("{folder}{end}"))).peekable();
        // A file without a module above it is a root, such as a test of its own.
        above.peek().is_some() && !above.any(|file| declares(file, name))
    });
    let message = "nothing includes this file; declare its module, or add it to guide.rs";
    forgotten.map(|file| file.finding(1, message)).collect()
}

fn declares(file: &File, name: &str) -> bool {
    file.text.lines().any(|line| {
        let mut words = line.trim().strip_suffix(';').unwrap_or_default().split_whitespace().rev();
        words.next() == Some(name) && words.next() == Some("mod")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found;

    #[test]
    fn long_file_fires() {
        let (long, text) = ("\n".repeat(401), "\n".repeat(400));
        let tree = Tree::sample(&[("a.rs", &long), ("b.rs", &text), ("a.md", &long)]);
        assert_eq!(found(&short(&tree)), [("a.rs", 401)]);
    }

    #[test]
    fn file_that_nothing_includes_fires() {
        let good = [
            ("crates/a/src/lib.rs", "pub mod key;\nmod guide;\n#[cfg(test)] mod tests;"),
            ("crates/a/src/key.rs", "    pub(crate) mod fixed;"),
            ("crates/a/src/key/fixed.rs", ""),
            ("crates/a/src/tests.rs", ""),
            ("crates/a/tests/it/main.rs", "mod keys;"),
            ("crates/a/tests/it/keys.rs", ""),
            ("crates/a/tests/models.rs", ""),
            ("crates/a/src/guide.rs", "#[doc = include_str!(\"../docs/guide/one.md\")]"),
            ("crates/a/docs/guide/one.md", ""),
        ];
        assert_eq!(found(&included(&Tree::sample(&good))), []);
        for bad in [
            "crates/a/src/rule.rs",
            "crates/a/src/key/host.rs",
            "crates/a/tests/it/ey.rs",
            "crates/a/docs/guide/on.md",
        ] {
            let tree = Tree::sample(&[&good[..], &[(bad, "// mod rule;x")]].concat());
            assert_eq!(found(&included(&tree)), [(bad, 1)]);
        }
    }
}
