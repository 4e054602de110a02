//! What is added is listed where its readers look: modules and examples in the map, chapters in the guide, packages
//! apart from the workspace in the CI step that checks them, and files in the module above them.

use super::{File, Finding, Tree};
use crate::ci;

const MAP: &str = "ARCHITECTURE.md";
const CONTENTS: &str = "docs/guide.md";

/// The crates whose modules have rows of their own in the map.
const BY_MODULE: [&str; 4] = ["limiter-core", "limiter-redis", "limiter-tower", "limiter-client"];

/// Roots, the guides' tables of contents, and what the model checker replaces.
const NOT_LISTED: [&str; 4] = ["lib", "guide", "sync", "tests"];

/// The map names each crate, each example, each script, and each module of the large crates below the row of its crate.
pub(super) fn is_complete(tree: &Tree) -> Vec<Finding> {
    let Some(map) = tree.get(MAP) else { return Vec::new() };
    let files = tree.0.iter().filter_map(|file| Some((file, missing(map, &file.path)?)));
    let findings = files.map(|(file, name)| {
        file.finding(1, format!("`{name}` is not in the map; give it a place in {MAP}"))
    });
    findings.collect()
}

/// Each example has tests that drive it. `cargo xtask examples` runs those that there are.
pub(super) fn examples_are_tested(tree: &Tree) -> Vec<Finding> {
    let examples = tree.0.iter().filter_map(|file| {
        let folder = file.path.strip_suffix("/Cargo.toml")?;
        folder.starts_with("examples/").then_some((file, folder))
    });
    let untested = examples.filter(|(_, folder)| {
        let tests = ["example.rs", "example/main.rs"];
        tests.iter().all(|test| tree.get(&format!("{folder}/tests/{test}")).is_none())
    });
    let message = "example without tests/example.rs; drive it from outside there";
    untested.map(|(file, _)| file.finding(1, message)).collect()
}

/// Returns the name of a module, a script, a crate or an example that the map should have and has not.
fn missing<'a>(map: &File, path: &'a str) -> Option<&'a str> {
    let (place, name) = match path.split('/').collect::<Vec<_>>()[..] {
        ["crates", name, "Cargo.toml"] => ("", name),
        ["examples", name, "Cargo.toml"] => ("examples/", name),
        ["crates", krate, "src", file] if BY_MODULE.contains(&krate) => {
            let name = file.strip_suffix(".rs").filter(|name| !NOT_LISTED.contains(name))?;
            (krate, name)
        }
        ["crates", krate, "src", "scripts", file] => {
            // A module may have the same name.
            let name = file.strip_suffix(".lua")?;
            let mut scripts = rows(map, krate).filter(|row| row.contains("`scripts/`"));
            let is_found = scripts.any(|row| names(row).any(|found| found == name));
            return (!is_found).then_some(name);
        }
        _ => return None,
    };
    let is_found = rows(map, place).any(|row| names(row).any(|found| found == name));
    (!is_found).then_some(name)
}

/// Returns the rows of a place: from the row that names it in bold type to the next such row.
fn rows<'a>(map: &'a File, place: &'a str) -> impl Iterator<Item = &'a str> {
    let mut is_within = place.is_empty();
    map.text.lines().filter(move |line| {
        if line.starts_with("| **") && !place.is_empty() {
            is_within = line.split("**").nth(1).is_some_and(|bold| bold.contains(place));
        }
        is_within && line.starts_with('|')
    })
}

/// Returns what a row has as code, as the last part of a path: of `in_flight/` and `crates/limiter-core/src` the names
/// `in_flight` and `limiter-core`.
fn names(row: &str) -> impl Iterator<Item = &str> {
    let code = row.split('`').skip(1).step_by(2);
    let paths = code.map(|code| code.trim_end_matches('/').trim_end_matches("/src"));
    paths.map(|path| path.rsplit('/').next().unwrap_or(path))
}

/// Each chapter is a part of its crate's guide, which compiles it and defines its links. If it is a module there, the
/// list at the guide's top has it, and the table of contents.
pub(super) fn chapters_are_listed(tree: &Tree) -> Vec<Finding> {
    let chapters = tree.0.iter().filter_map(|file| {
        let (krate, name) = file.path.split_once("/docs/guide/")?;
        Some((file, krate, name.strip_suffix(".md")?))
    });
    let findings = chapters.filter_map(|(file, krate, name)| {
        let text = |path: &str| tree.get(path).map_or("", |file| &file.text);
        let guide = text(&format!("{krate}/src/guide.rs"));
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
        let mut code =
            guide.lines().filter(|line| line.starts_with("pages!") || line.contains("doc ="));
        let Some(line) = code.find(|line| line.split(|c| !is_word(c)).any(|word| word == name))
        else {
            let message = "chapter that no guide includes; add it to guide.rs of its crate";
            return Some(file.finding(1, message));
        };
        let link = format!("[`{}`]", name.replace('-', "_"));
        let is_listed = guide.lines().any(|line| line.starts_with("//!") && line.contains(&link));
        let path = file.path.as_str();
        let is_in_contents = text(CONTENTS).contains(&format!("(../{path})"));
        let message = format!(
            "chapter that readers can't find; add it to {CONTENTS} and the list in guide.rs"
        );
        let is_module = !line.starts_with("#![");
        (is_module && !(is_listed && is_in_contents)).then(|| file.finding(1, message))
    });
    findings.collect()
}

/// Each package that is not in the workspace is in the list of those that CI formats and checks.
pub(super) fn packages_apart_are_checked(tree: &Tree) -> Vec<Finding> {
    let apart = tree.0.iter().filter_map(|file| {
        let folder = file.path.strip_suffix("/Cargo.toml")?;
        (folder.starts_with("bench") || folder.starts_with("fuzz")).then_some((file, folder))
    });
    let forgotten = apart.filter(|(_, folder)| !ci::APART.contains(folder));
    let message = "package that no CI step checks; add it to APART in xtask/src/ci.rs";
    forgotten.map(|(file, _)| file.finding(1, message)).collect()
}

/// Each file below a module is declared by it. One that is not is never compiled.
pub(super) fn modules_are_declared(tree: &Tree) -> Vec<Finding> {
    let files = tree.0.iter().filter_map(|file| {
        let (folder, name) = file.path.strip_suffix(".rs")?.rsplit_once('/')?;
        (!["lib", "main", "mod"].contains(&name)).then_some((file, folder, name))
    });
    let forgotten = files.filter(|(_, folder, name)| {
        let above = [".rs", "/lib.rs", "/main.rs", "/mod.rs"];
        let above = above.iter().filter_map(|end| tree.get(&format!("{folder}{end}")));
        let mut above = above.peekable();
        // A file without a module above it is a root, such as a test of its own.
        above.peek().is_some() && !above.any(|file| declares(file, name))
    });
    let message = "file that no module declares, so it is not compiled; add its `mod`";
    forgotten.map(|(file, ..)| file.finding(1, message)).collect()
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

    const TEXT: &str = "| **`crates/limiter-core/src`** | |\n| `limiter` `block/` | text |\n\
                        | **`crates/limiter-redis/src`** | `limiter-core` |\n| `client/` `lease/` | text |\n\
                        | `scripts/` | `gcra` and `log` |\n| **`examples/`** | `axum` |";

    #[test]
    fn what_the_map_lacks_fires() {
        let good = [
            (MAP, TEXT),
            ("crates/limiter-core/Cargo.toml", ""),
            ("crates/limiter-core/src/limiter.rs", ""),
            ("crates/limiter-core/src/block.rs", ""),
            ("crates/limiter-core/src/lib.rs", ""),
            ("crates/limiter-core/src/block/blocks.rs", ""),
            ("crates/limiter-redis/src/client.rs", ""),
            ("crates/limiter-redis/src/scripts/log.lua", ""),
            ("crates/limiter-redis/src/scripts/functions/scaled.lua", ""),
            ("crates/limiter-rig/src/log.rs", ""),
            ("examples/axum/Cargo.toml", ""),
        ];
        assert!(is_complete(&Tree::sample(&good)).is_empty());
        for bad in [
            "crates/limiter-rig/Cargo.toml",
            "crates/limiter-core/src/policy.rs",
            // It is another crate's.
            "crates/limiter-redis/src/limiter.rs",
            // There is a module with its name.
            "crates/limiter-redis/src/scripts/lease.lua",
            "examples/warp/Cargo.toml",
        ] {
            let tree = Tree::sample(&[(MAP, TEXT), (bad, "")]);
            assert_eq!(found(&is_complete(&tree)), [(bad, 1)]);
        }
    }

    #[test]
    fn example_without_tests_fires() {
        let [axum, fleet] = ["examples/axum/Cargo.toml", "examples/fleet/Cargo.toml"];
        let tests = ["examples/axum/tests/example.rs", "examples/fleet/tests/example/main.rs"];
        let good = [(axum, ""), (tests[0], ""), (fleet, ""), (tests[1], "")];
        assert!(examples_are_tested(&Tree::sample(&good)).is_empty());
        let bad = [(axum, ""), (tests[0], ""), (fleet, ""), ("examples/fleet/src/main.rs", "")];
        assert_eq!(found(&examples_are_tested(&Tree::sample(&bad))), [(fleet, 1)]);
    }

    #[test]
    fn chapter_that_readers_miss_fires() {
        let guide = "//! [`laws`], [`in_flight`] and [`keys`]\n#![doc = include_str!(\"../docs/guide/gcra.md\")]\n\
                     #[doc = include_str!(\"../docs/guide/in-flight.md\")]\npages! { keys unlisted }";
        let contents = "[](../crates/a/docs/guide/in-flight.md) [](../crates/a/docs/guide/unlisted.md) \
                        [](../crates/a/docs/guide/keys.md)";
        let (file, contents) = (("crates/a/src/guide.rs", guide), (CONTENTS, contents));
        for good in ["gcra", "in-flight", "keys"].map(|it| format!("crates/a/docs/guide/{it}.md")) {
            assert!(chapters_are_listed(&Tree::sample(&[file, contents, (&good, "")])).is_empty());
        }
        let [not_included, other] = ["crates/a/docs/guide/laws.md", "crates/b/docs/guide/keys.md"];
        for bad in [not_included, other, "crates/a/docs/guide/unlisted.md"] {
            let tree = Tree::sample(&[file, contents, (bad, "")]);
            assert_eq!(found(&chapters_are_listed(&tree)), [(bad, 1)]);
        }
        let [not_in_contents, empty] = [("crates/a/docs/guide/keys.md", ""), (CONTENTS, "")];
        let tree = Tree::sample(&[file, empty, not_in_contents]);
        assert_eq!(found(&chapters_are_listed(&tree)), [(not_in_contents.0, 1)]);
    }

    #[test]
    fn package_that_ci_does_not_check_fires() {
        let tree = Tree::sample(&[("bench/fleet/Cargo.toml", ""), ("bench/new/Cargo.toml", "")]);
        assert_eq!(found(&packages_apart_are_checked(&tree)), [("bench/new/Cargo.toml", 1)]);
    }

    #[test]
    fn file_that_no_module_declares_fires() {
        let good = [
            ("crates/a/src/lib.rs", "pub mod key;\n#[cfg(test)] mod tests;"),
            ("crates/a/src/key.rs", "    pub(crate) mod fixed;"),
            ("crates/a/src/key/fixed.rs", ""),
            ("crates/a/src/tests.rs", ""),
            ("crates/a/tests/it/main.rs", "mod keys;"),
            ("crates/a/tests/it/keys.rs", ""),
            ("crates/a/tests/models.rs", ""),
        ];
        assert!(modules_are_declared(&Tree::sample(&good)).is_empty());
        for bad in ["crates/a/src/rule.rs", "crates/a/src/key/host.rs", "crates/a/tests/it/ey.rs"] {
            let tree = Tree::sample(&[good.as_slice(), &[(bad, "// mod rule;x")]].concat());
            assert_eq!(found(&modules_are_declared(&tree)), [(bad, 1)]);
        }
    }
}
