//! `cargo xtask api`: the public API of each published library, as a list that a review can read.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use xshell::{Shell, cmd};

use crate::workspace;

/// Where the lists are.
const FOLDER: &str = "docs/api";

/// Writes all lists, or checks that they are as they would be written.
pub(crate) fn run(shell: &Shell, arguments: &[String]) -> Result<()> {
    let check = arguments == ["--check"];
    ensure!(check || arguments.is_empty(), "api has one option: --check");
    let tool = cmd!(shell, "cargo public-api --version").quiet().ignore_stdout().ignore_stderr();
    ensure!(
        tool.run().is_ok(),
        "cargo-public-api is missing; install it with `cargo install --locked cargo-public-api` \
         and a nightly compiler with `rustup toolchain install nightly --profile minimal`"
    );
    // Built apart, because another compiler would have all of it built anew each time.
    let target = workspace::target_folder(shell)?.join("api");
    let temporary = shell.create_temp_dir()?;
    let mut changed = Vec::new();
    for krate in workspace::published(shell)?.into_iter().filter(|krate| krate.has_library) {
        let name = &krate.name;
        eprintln!("{name}");
        let list = cmd!(shell, "cargo +nightly public-api -p {name} --all-features -s")
            .args(["--color=never", "--target-dir"])
            .arg(&target)
            .quiet()
            .read()?;
        let path = format!("{FOLDER}/{name}.txt");
        let new = if check { temporary.path().join(name) } else { shell.current_dir().join(&path) };
        shell.write_file(&new, stable(&list))?;
        let difference = cmd!(shell, "git --no-pager diff --no-index {path} {new}").quiet();
        if check && difference.run().is_err() {
            changed.push(path);
        }
    }
    ensure!(
        changed.is_empty(),
        "{} not up to date; write with `cargo xtask api`, and list the changes in CHANGELOG.md",
        changed.join(", ")
    );
    Ok(())
}

/// Traits that a compiler implements, of which some only a nightly one can name. Tests state what has to be `Send`.
const AUTO_TRAITS: [&str; 7] = [
    "core::marker::Freeze",
    "core::marker::Send",
    "core::marker::StructuralPartialEq",
    "core::marker::Sync",
    "core::marker::Unpin",
    "core::marker::UnsafeUnpin",
    "UnwindSafe",
];

/// Leaves out what a reader of changes need not see: auto traits, the functions of implementations of known traits,
/// whose first line stays, and what is listed a second time.
fn stable(list: &str) -> String {
    let mut seen = BTreeSet::new();
    // The type whose implementation of a known trait is being read.
    let mut known: Option<&str> = None;
    let kept = list.lines().filter(|line| {
        if let Some((implemented, subject)) = implementation(line) {
            let of_std =
                ["core::", "alloc::", "std::"].iter().any(|root| implemented.starts_with(root));
            known = subject.filter(|_| of_std);
            let is_auto = AUTO_TRAITS.iter().any(|name| implemented.contains(name));
            return !(subject.is_some() && is_auto) && seen.insert(*line);
        }
        let path = line.split_once("pub fn ");
        let is_function = known.zip(path).is_some_and(|(subject, (_, path))| {
            path.strip_prefix(subject).is_some_and(|rest| rest.starts_with([':', '<']))
        });
        !is_function && seen.insert(*line)
    });
    kept.flat_map(|line| [line, "\n"]).collect()
}

/// Reads `impl<T> Trait for Type<T>`, without parameters and bounds: the trait and the type. An inherent implementation
/// has only the type, in the trait's place.
fn implementation(line: &str) -> Option<(&str, Option<&str>)> {
    let mut rest = line.strip_prefix("impl")?;
    if rest.starts_with('<') {
        let mut depth = 0;
        let end = rest.char_indices().find(|(at, char)| {
            // The arrow of a closure's type closes nothing.
            let is_arrow = rest.get(..*at).is_some_and(|before| before.ends_with('-'));
            depth += i32::from(*char == '<') - i32::from(*char == '>' && !is_arrow);
            depth == 0
        });
        rest = rest.get(end?.0 + 1..)?;
    }
    let rest = rest.strip_prefix(' ')?.trim_start_matches('!');
    let (implemented, subject) =
        rest.split_once(" for ").map_or((rest, None), |(a, b)| (a, Some(b)));
    let subject = subject.map(|subject| subject.split(['<', ' ']).next().unwrap_or_default());
    Some((implemented, subject))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_traits_functions_of_known_traits_and_repetitions_are_left_out() {
        let list = "\
pub struct a::A<T>
impl<T: core::clone::Clone> core::clone::Clone for a::A<T>
pub fn a::A<T>::clone(&self) -> a::A<T>
impl core::clone::Clone for a::B
pub fn a::B::clone(&self) -> a::B
impl a::Limiter for a::B
pub fn a::B::check(&self)
impl a::B
pub const fn a::B::new() -> Self
impl core::future::Future for a::B
pub type a::B::Output = u8
pub fn a::B::poll(self)
impl core::marker::Send for a::B
impl<F: core::ops::Fn() -> u8> core::panic::unwind_safe::UnwindSafe for a::B where F: core::marker::Send
pub fn a::decide()
pub trait a::Limiter
impl a::Limiter for a::B
pub fn a::B::check(&self)
";
        let kept = "\
pub struct a::A<T>
impl<T: core::clone::Clone> core::clone::Clone for a::A<T>
impl core::clone::Clone for a::B
impl a::Limiter for a::B
pub fn a::B::check(&self)
impl a::B
pub const fn a::B::new() -> Self
impl core::future::Future for a::B
pub type a::B::Output = u8
pub fn a::decide()
pub trait a::Limiter
";
        assert_eq!(stable(list), kept);
        assert_eq!(stable(kept), kept, "a second time changes nothing");
    }
}
