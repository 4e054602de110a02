//! What Cargo and git know of the workspace.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Map, Value};
use xshell::{Shell, cmd};

/// The folder of the workspace.
pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Returns the folder that Cargo builds in, wherever it was configured.
pub(crate) fn target_folder(shell: &Shell) -> Result<PathBuf> {
    let metadata = metadata(shell)?;
    let folder = metadata.get("target_directory").and_then(Value::as_str);
    Ok(folder.context("cargo metadata: no target_directory")?.into())
}

/// Returns the names of the packages that `cargo test` takes by itself.
pub(crate) fn default_members(shell: &Shell) -> Result<Vec<String>> {
    let metadata = metadata(shell)?;
    let members: Vec<_> = list(&metadata, "workspace_default_members").collect();
    let packages = list(&metadata, "packages");
    let defaults = packages.filter(|it| it.get("id").is_some_and(|id| members.contains(&id)));
    Ok(defaults.map(name).collect())
}

/// Returns the crates that may be published, and the names of their features.
pub(crate) fn published(shell: &Shell) -> Result<Vec<(String, Vec<String>)>> {
    let metadata = metadata(shell)?;
    // `publish` lists the registries allowed: null for any, empty for none.
    let packages =
        list(&metadata, "packages").filter(|it| it.get("publish").is_some_and(Value::is_null));
    let features = |package: &Value| {
        let features = package.get("features").and_then(Value::as_object);
        features.into_iter().flat_map(Map::keys).cloned().collect()
    };
    Ok(packages.map(|package| (name(package), features(package))).collect())
}

fn metadata(shell: &Shell) -> Result<Value> {
    let json = cmd!(shell, "cargo metadata --no-deps --format-version 1").quiet().read()?;
    Ok(serde_json::from_str(&json)?)
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

fn name(package: &Value) -> String {
    package.get("name").and_then(Value::as_str).unwrap_or_default().to_owned()
}
