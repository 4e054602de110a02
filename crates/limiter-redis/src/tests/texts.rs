//! The scripts in `docs/scripts/` are those that are sent.

use std::{collections::BTreeSet, env, fs, path::Path};

use crate::scripts;

/// In the repository; not in a package.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scripts");

#[test]
fn scripts_in_the_documents_are_sent() {
    let folder = Path::new(FOLDER);
    if env::var_os("LIMITER_WRITE_DOCS").is_some() {
        drop(fs::remove_dir_all(folder));
        fs::create_dir_all(folder).unwrap();
        for (name, text) in scripts::all() {
            fs::write(folder.join(format!("{name}.lua")), text).unwrap();
        }
        return;
    }
    let Ok(files) = fs::read_dir(folder) else { return };
    let files: BTreeSet<_> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    let sent: BTreeSet<_> = scripts::all().map(|(name, _)| format!("{name}.lua")).collect();
    assert_eq!(files, sent, "run `cargo xtask scripts`");
    for (name, text) in scripts::all() {
        let written = fs::read_to_string(folder.join(format!("{name}.lua"))).unwrap();
        assert!(
            written == text,
            "docs/scripts/{name}.lua is out of date: run `cargo xtask scripts`"
        );
    }
}

/// What runs for most checks is read from top to bottom.
#[test]
fn the_script_for_most_checks_has_no_functions() {
    let (_, text) = scripts::all().find(|(name, _)| *name == "gcra").unwrap();
    assert!(!text.contains("function"));
}

/// Each script that needs the time has the same text for it, which refuses a clock that is not set.
#[test]
fn each_script_reads_the_clock_once_by_the_same_text() {
    for (name, text) in scripts::all() {
        let reads = text.matches("call('TIME')").count();
        assert_eq!(
            (text.matches(scripts::CLOCK).count(), reads),
            (reads, usize::from(!matches!(name, "reset" | "leave"))),
            "{name}"
        );
    }
}

#[test]
fn all_that_a_script_includes_is_in_its_text() {
    for (name, text) in scripts::all() {
        assert!(!text.contains("-- include "), "{name}");
        assert!(text.starts_with(&format!("-- Script  {name}: ")), "{name}");
    }
}
