//! Builds and tests the packages as their users get them, with the crates of the family patched to each other.

use std::{fmt::Write as _, path::Path};

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
        complete(shell, &folder.join(format!("{name}-{version}")))?;
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

/// Writes an empty module in place of `src/tests.rs` where a package leaves it out, so that the tests beside the code run.
///
/// That module has tests of private items by limiter-double and limiter-test. These are not published, so
/// Cargo removes them from the package's dependencies, and the module would not compile anywhere. It says nothing about
/// the package that a run in the repository does not: the package has the same sources, and what can differ, files and
/// dependencies that are missing, is found by the tests beside the code and by those of the documentation.
fn complete(shell: &Shell, package: &Path) -> Result<()> {
    let tests = package.join("src/tests.rs");
    if shell.path_exists(&tests) {
        return Ok(());
    }
    for root in ["src/lib.rs", "src/main.rs"].map(|root| package.join(root)) {
        let text = if shell.path_exists(&root) { shell.read_file(root)? } else { String::new() };
        if text.lines().any(|line| line == "mod tests;") {
            shell.write_file(&tests, "")?;
        }
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
    fn only_a_module_of_tests_that_is_left_out_is_written() {
        let shell = Shell::new().unwrap();
        for (root, has_tests, expected) in [
            ("#[cfg(test)]\nmod tests;\n", false, Some("")),
            ("#[cfg(test)]\nmod tests;\n", true, Some("//! Own.")),
            ("mod tests {}\n", false, None),
        ] {
            let folder = shell.create_temp_dir().unwrap();
            let tests = folder.path().join("src/tests.rs");
            shell.write_file(folder.path().join("src/lib.rs"), root).unwrap();
            if has_tests {
                shell.write_file(&tests, "//! Own.").unwrap();
            }
            complete(&shell, folder.path()).unwrap();
            assert_eq!(shell.read_file(&tests).ok().as_deref(), expected, "{root}");
        }
    }

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
