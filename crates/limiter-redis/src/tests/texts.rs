//! The texts of the scripts as they are sent.

use crate::scripts;

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
