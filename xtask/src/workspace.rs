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
    pub(crate) version: String,
    pub(crate) rust_version: String,
    pub(crate) repository: Option<String>,
    /// The published crates that it depends on, and the versions that it demands of them.
    pub(crate) family: Vec<(String, String)>,
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

/// Returns the names of the packages that `cargo test` takes by itself.
pub(crate) fn default_members(shell: &Shell) -> Result<Vec<String>> {
    let metadata = metadata(shell)?;
    let members = field(&metadata, "workspace_default_members")?.as_array().into_iter().flatten();
    let packages = field(&metadata, "packages")?.as_array().into_iter().flatten();
    let packages: Vec<&Value> = packages.collect();
    let name = |id: &Value| {
        let package = packages.iter().find(|package| package.get("id") == Some(id));
        text(package.context("cargo metadata: a member is no package")?, "name").map(str::to_owned)
    };
    members.map(name).collect()
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
        version: text(package, "version")?.to_owned(),
        rust_version: text(package, "rust_version")?.to_owned(),
        repository: text(package, "repository").ok().map(str::to_owned),
        family: family(package),
        has_library,
        missing: missing(package, has_library),
    })
}

/// Dependencies by path with a version: a dependency of the tests without one is not published.
fn family(package: &Value) -> Vec<(String, String)> {
    let all = package.get("dependencies").and_then(Value::as_array).into_iter().flatten();
    let own = all.filter(|dependency| dependency.get("path").is_some_and(|path| !path.is_null()));
    let pairs = own.filter_map(|dependency| {
        let (name, version) = (text(dependency, "name").ok()?, text(dependency, "req").ok()?);
        (version != "*").then(|| (name.to_owned(), version.to_owned()))
    });
    pairs.collect()
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

#[cfg(test)]
impl Published {
    pub(crate) fn sample(name: &str) -> Self {
        Self {
            id: String::new(),
            name: name.to_owned(),
            features: Vec::new(),
            version: "0.1.0".to_owned(),
            rust_version: "1.88".to_owned(),
            repository: None,
            family: Vec::new(),
            has_library: true,
            missing: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_missing_or_empty_field_is_named() {
        let full = serde_json::json!({
            "description": "x", "license": "MIT", "readme": "README.md", "keywords": ["x"], "categories": ["x"],
            "metadata": { "docs": { "rs": { "rustdoc-args": [] } } },
        });
        assert!(missing(&full, true).is_empty());
        let fields = full.as_object().unwrap().keys().filter(|name| *name != "metadata");
        for name in fields {
            for empty in [Value::Null, Value::Array(Vec::new())] {
                let mut package = full.clone();
                package[name] = empty;
                assert_eq!(missing(&package, true), [name.as_str()]);
            }
        }
        let mut package = full.clone();
        package["metadata"] = Value::Null;
        assert_eq!(missing(&package, true), ["package.metadata.docs.rs"]);
        assert!(missing(&package, false).is_empty());
    }
}
