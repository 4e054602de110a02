//! The lists of faults, of wrong worlds and of scripts are complete. A variant that no list has
//! would never happen.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use limiter_sim::{Fault, Wrong};

/// Returns how many variants an enum has, by the source text that declares it.
fn variants(source: &str, name: &str) -> usize {
    let start = format!("pub enum {name} {{\n");
    let declaration = source.split_once(&start).and_then(|(_, rest)| rest.split_once("\n}"));
    let lines = declaration.map_or("", |(declaration, _)| declaration).lines();
    lines.map(str::trim).filter(|line| !line.starts_with("///") && line.ends_with(',')).count()
}

#[test]
fn each_fault_can_happen() {
    let declared = variants(include_str!("../src/fault.rs"), "Fault");
    assert_eq!(Fault::all().count(), declared, "a fault is neither of messages nor of the world");
}

#[test]
fn each_wrong_world_can_be_run() {
    let declared = variants(include_str!("../src/wrong.rs"), "Wrong");
    assert_eq!(Wrong::ALL.len(), declared, "a wrong world is not in `Wrong::ALL`");
}

/// The scripts that the simulation's matches on names have been made for.
const SCRIPTS: [&str; 10] =
    ["enter", "gcra", "lease", "leave", "list", "log", "refund", "renew", "reset", "window"];

#[test]
fn the_simulation_knows_each_script() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../limiter-redis/src/scripts");
    let files = fs::read_dir(folder).expect("the folder of the scripts");
    let files = files.map(|file| file.expect("a file").path());
    let scripts = files.filter(|path| path.extension().is_some_and(|end| end == "lua"));
    let mut names: Vec<_> =
        scripts.filter_map(|path| path.file_stem().map(ToOwned::to_owned)).collect();
    names.sort_unstable();
    let sources = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"));
    let naming = files_naming_scripts(sources).expect("the sources");
    assert_eq!(
        names, SCRIPTS,
        "these files name scripts, and what they do without a name has to be right for a new one: {naming:#?}"
    );
}

/// Returns the files in `folder` that have the name of a script in quotation marks.
fn files_naming_scripts(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files_naming_scripts(&path)?);
            continue;
        }
        let text = fs::read_to_string(&path)?;
        if SCRIPTS.iter().any(|script| text.contains(&format!("\"{script}\""))) {
            found.push(path);
        }
    }
    Ok(found)
}

#[test]
fn the_recorded_page_has_each_fault() {
    let page = include_str!("../../../docs/benchmarks/simulation.md");
    for fault in Fault::all() {
        let is_counted = page.contains(&format!("\n| {fault} | "));
        assert!(
            is_counted,
            "{fault} was not recorded: run `cargo xtask simulate --record 1000000`"
        );
    }
}
