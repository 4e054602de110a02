//! What Cargo knows of the workspace.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Map, Value};
use xshell::{Shell, cmd};

/// The folder of the workspace.
pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// A crate that is published.
pub(crate) struct Published {
    /// What Cargo calls this version of the crate.
    pub(crate) id: String,
    pub(crate) name: String,
    /// The names of its features.
    pub(crate) features: Vec<String>,
    pub(crate) rust_version: String,
    pub(crate) has_library: bool,
    /// Fields of Cargo.toml that crates.io or docs.rs show or need, and that are not there.
    pub(crate) missing: Vec<&'static str>,
}

/// Returns the folder that Cargo builds in, wherever it was configured.
pub(crate) fn target_folder(shell: &Shell) -> Result<PathBuf> {
    let metadata = metadata(shell)?;
    Ok(text(&metadata, "target_directory")?.into())
}

/// Returns the short name of the commit, for reports.
pub(crate) fn commit(shell: &Shell) -> Result<String> {
    cmd!(shell, "git rev-parse --short HEAD").quiet().read().context("git names no commit")
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
    let features = field(package, "features")?.as_object().into_iter().flat_map(Map::keys);
    let targets = field(package, "targets")?.as_array().into_iter().flatten();
    let has_library =
        targets.filter_map(|target| target.pointer("/kind/0")).any(|kind| kind == "lib");
    Ok(Published {
        id: text(package, "id")?.to_owned(),
        name: text(package, "name")?.to_owned(),
        features: features.cloned().collect(),
        rust_version: text(package, "rust_version")?.to_owned(),
        has_library,
        missing: missing(package, has_library),
    })
}

fn missing(package: &Value, has_library: bool) -> Vec<&'static str> {
    let fields = ["description", "license", "readme", "keywords", "categories"];
    let is_empty = |name: &&str| {
        let value = package.get(*name);
        value.is_none_or(|value| value.is_null() || value.as_array().is_some_and(Vec::is_empty))
    };
    let mut missing: Vec<_> = fields.into_iter().filter(is_empty).collect();
    if has_library && package.pointer("/metadata/docs/rs/rustdoc-args").is_none() {
        missing.push("package.metadata.docs.rs");
    }
    missing
}

/// Returns a field that is text.
pub(crate) fn text<'a>(value: &'a Value, name: &str) -> Result<&'a str> {
    let text = field(value, name)?.as_str();
    text.with_context(|| format!("cargo metadata: {name} is not text"))
}

fn field<'a>(value: &'a Value, name: &str) -> Result<&'a Value> {
    value.get(name).with_context(|| format!("cargo metadata: no {name}"))
}

fn metadata(shell: &Shell) -> Result<Value> {
    let json = cmd!(shell, "cargo metadata --no-deps --format-version 1").quiet().read()?;
    Ok(serde_json::from_str(&json)?)
}
