//! Builds and tests the packages as their users get them, with the crates of the family patched to each other.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use toml::{Table, Value};
use xshell::{Shell, cmd};

use crate::workspace::{self, Published};

/// Unpacks what the step `package` has packed, and runs the tests that the packages have.
pub(super) fn test(shell: &Shell, crates: &[Published]) -> Result<()> {
    let target = workspace::target_folder(shell)?;
    let folder = target.join("release-check");
    shell.remove_path(&folder)?;
    shell.create_dir(&folder)?;
    for Published { name, version, .. } in crates {
        let package = target.join(format!("package/{name}-{version}.crate"));
        cmd!(shell, "tar --extract --gzip --file {package} --directory {folder}").quiet().run()?;
    }
    shell.write_file(
        folder.join("Cargo.toml"),
        manifest(crates, &shell.read_file("Cargo.toml")?)?,
    )?;
    // The versions that all other tests use.
    shell.copy_file("Cargo.lock", &folder)?;

    let _inside = shell.push_dir(&folder);
    for Published { name, .. } in crates {
        eprintln!("{name}");
        // In the same folder, because the dependencies are built there.
        cmd!(shell, "cargo test --quiet --package {name} --all-features --target-dir {target}")
            .quiet()
            .run()
            .with_context(|| {
                format!("the package of {name}; `exclude` what does not compile alone")
            })?;
    }
    Ok(())
}

/// A workspace of the packages, with the profiles of this one, so that dependencies are not built twice.
fn manifest(crates: &[Published], workspace: &str) -> Result<String> {
    let mut manifest =
        "[workspace]\nresolver = \"3\"\nmembers = [\"*-*\"]\n\n[patch.crates-io]\n".to_owned();
    for Published { name, version, .. } in crates {
        writeln!(manifest, "{name} = {{ path = \"{name}-{version}\" }}")?;
    }
    let workspace: Table = workspace.parse()?;
    let mut profile =
        workspace.get("profile").and_then(Value::as_table).cloned().unwrap_or_default();
    for profile in profile.iter_mut().filter_map(|(_, profile)| profile.as_table_mut()) {
        if let Some(packages) = profile.get_mut("package").and_then(Value::as_table_mut) {
            packages
                .retain(|name, _| name == "*" || crates.iter().any(|krate| krate.name == *name));
        }
    }
    let profile = Table::from_iter([("profile".to_owned(), Value::Table(profile))]);
    Ok(format!("{manifest}\n{}", toml::to_string(&profile)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifest_patches_the_family_and_keeps_the_profiles_of_what_is_there() {
        let workspace = "[profile.dev]\ndebug = 1\n[profile.dev.package.\"*\"]\ndebug = false\n\
                         [profile.dev.package.limiter-test]\nopt-level = 1\n";
        let manifest = manifest(&[Published::sample("limiter-core")], workspace).unwrap();
        let table: Table = manifest.parse().unwrap();
        let patch = &table["patch"]["crates-io"]["limiter-core"]["path"];
        assert_eq!(patch.as_str(), Some("limiter-core-0.1.0"));
        let packages = table["profile"]["dev"]["package"].as_table().unwrap();
        assert_eq!(packages.keys().collect::<Vec<_>>(), ["*"]);
    }
}
