//! What Cargo knows of the workspace.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Map, Value};
use xshell::{Shell, cmd};

/// The folder of the workspace.
pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// A crate that is published, and the names of its features.
pub(crate) struct Published {
    pub(crate) name: String,
    pub(crate) features: Vec<String>,
}

/// Returns the folder that Cargo builds in, wherever it was configured.
pub(crate) fn target_folder(shell: &Shell) -> Result<PathBuf> {
    let metadata = metadata(shell)?;
    let folder = field(&metadata, "target_directory")?.as_str();
    Ok(folder.context("cargo metadata: a folder is no text")?.into())
}

/// Returns the crates of the workspace that may be published.
pub(crate) fn published(shell: &Shell) -> Result<Vec<Published>> {
    let metadata = metadata(shell)?;
    let packages = field(&metadata, "packages")?.as_array().into_iter().flatten();
    // `publish` lists the registries allowed: null for any, empty for none.
    let published = packages.filter(|package| package.get("publish").is_none_or(Value::is_null));
    published.map(read).collect()
}

fn read(package: &Value) -> Result<Published> {
    let name = field(package, "name")?.as_str().unwrap_or_default().to_owned();
    let features = field(package, "features")?.as_object().into_iter().flat_map(Map::keys);
    Ok(Published { name, features: features.cloned().collect() })
}

fn field<'a>(value: &'a Value, name: &str) -> Result<&'a Value> {
    value.get(name).with_context(|| format!("cargo metadata: no {name}"))
}

fn metadata(shell: &Shell) -> Result<Value> {
    let json = cmd!(shell, "cargo metadata --no-deps --format-version 1").quiet().read()?;
    Ok(serde_json::from_str(&json)?)
}
