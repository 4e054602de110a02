//! What the published crates are built from, by `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::Value;
use xshell::{Shell, cmd};

use crate::workspace::{self, text};

/// A crate that a published one needs to be built, with any feature and on any target.
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) licence: String,
    pub(crate) source: String,
    /// Empty if the crate states none.
    pub(crate) rust_version: String,
}

/// Returns the normal and build dependencies of the published crates, direct and indirect.
pub(crate) fn of_published(shell: &Shell) -> Result<Vec<Dependency>> {
    let arguments = ["--format-version", "1", "--all-features", "--locked"];
    let json = cmd!(shell, "cargo metadata {arguments...}").quiet().read()?;
    let metadata: Value = serde_json::from_str(&json)?;
    let nodes = list(metadata.pointer("/resolve/nodes"))
        .map(|node| Ok((text(node, "id")?, node)))
        .collect::<Result<BTreeMap<&str, &Value>>>()?;

    let own: Vec<String> = workspace::published(shell)?.into_iter().map(|own| own.id).collect();
    let mut queue: Vec<&str> = own.iter().map(String::as_str).collect();
    let mut found = BTreeSet::new();
    while let Some(id) = queue.pop() {
        if found.insert(id) {
            let node = nodes.get(id).with_context(|| format!("cargo metadata: no node {id}"))?;
            for edge in list(node.get("deps")).filter(|edge| is_built(edge)) {
                queue.push(text(edge, "pkg")?);
            }
        }
    }
    let packages = list(metadata.get("packages"));
    let foreign = |id: &str| found.contains(id) && !own.iter().any(|own| own == id);
    packages.filter(|package| text(package, "id").is_ok_and(foreign)).map(read).collect()
}

/// Whether the crate at the end of the edge is built for a user, so for neither tests nor models.
fn is_built(edge: &Value) -> bool {
    list(edge.get("dep_kinds")).any(|kind| {
        let is = |name: &str, value: &str| kind.get(name).and_then(Value::as_str) == Some(value);
        !is("kind", "dev") && !is("target", "cfg(loom)")
    })
}

fn read(package: &Value) -> Result<Dependency> {
    let optional =
        |name: &str| package.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok(Dependency {
        name: format!("{} {}", text(package, "name")?, text(package, "version")?),
        licence: optional("license"),
        source: optional("source"),
        rust_version: optional("rust_version"),
    })
}

fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}
