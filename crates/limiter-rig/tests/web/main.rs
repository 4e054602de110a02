//! The layers on the web: behind nginx, and read by a browser.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper that fails fails its test"
)]

mod browser;
mod nginx;

use std::{env, ffi::OsString, path::PathBuf};

/// Returns the program that a variable names, or else the one that is installed. Without one the test fails, it is not skipped.
fn binary(variable: &str, names: &[&str]) -> OsString {
    if let Some(named) = env::var_os(variable) {
        return named;
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let mut files = folders.flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    match files.find(|file| file.is_file()) {
        Some(file) => file.into(),
        None => panic!(
            "no {} to test with: run `cargo xtask test`, which fetches one, or install one, or set {variable} to the path \
             of a binary",
            names[0]
        ),
    }
}
