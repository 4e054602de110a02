//! The step `package`: each published crate can be packaged, with what its users have to find in it.

use anyhow::{Result, ensure};
use xshell::{Shell, cmd};

use crate::tidy::link;
use crate::workspace::{Published, published};

/// Files that each package has beside its code.
const FILES: [&str; 3] = ["LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// Packages the published crates, without building the packages: that takes minutes.
pub(crate) fn check(shell: &Shell) -> Result<()> {
    let mut names = Vec::new();
    for Published { name, missing, .. } in published(shell)? {
        ensure!(missing.is_empty(), "Cargo.toml of {name} has no {}", missing.join(", "));
        let list = cmd!(shell, "cargo package --list --allow-dirty -p {name}").quiet().read()?;
        for file in FILES {
            let found = list.lines().any(|line| line == file);
            ensure!(found, "the package of {name} has no {file}; link it into the crate's folder");
        }
        let dead = dead_links(&shell.read_file(format!("crates/{name}/README.md"))?, &list);
        ensure!(
            dead.is_empty(),
            "README.md of {name} links {}, which its package does not have; name it without a link",
            dead.join(", ")
        );
        names.extend(["-p".to_owned(), name]);
    }
    Ok(cmd!(shell, "cargo package --quiet --allow-dirty --no-verify {names...}").quiet().run()?)
}

/// The relative links of a README that lead to no file of its package. Outside of the repository, nothing else is there.
fn dead_links(readme: &str, list: &str) -> Vec<String> {
    let targets = link::targets(readme);
    let paths =
        targets.into_iter().filter(|target| !target.contains("://") && !target.starts_with('#'));
    let mut dead: Vec<String> = paths
        .filter(|target| {
            let path = target.split('#').next().unwrap_or_default();
            // Items of rustdoc, and pages of the same folder.
            path.contains(['/', '.']) && !list.lines().any(|file| file == path)
        })
        .collect();
    dead.dedup();
    dead
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[package]
name = \"sample\"
version = \"0.1.0\"
edition = \"2024\"
rust-version = \"1.88\"
description = \"A sample.\"
license = \"MIT\"
readme = \"README.md\"
keywords = [\"sample\"]
categories = [\"algorithms\"]
[package.metadata.docs.rs]
rustdoc-args = [\"--cfg\", \"docsrs\"]
";

    /// Runs the step in a workspace of one crate, after a change of its folder.
    fn checked(change: impl FnOnce(&Shell)) -> Result<(), String> {
        let shell = Shell::new().unwrap();
        let folder = shell.create_temp_dir().unwrap();
        shell.change_dir(folder.path());
        shell.set_var("CARGO_TARGET_DIR", folder.path().join("target"));
        shell.write_file("Cargo.toml", "[workspace]\nmembers = [\"crates/sample\"]\n").unwrap();
        {
            let _inside = shell.push_dir("crates/sample");
            shell.write_file("Cargo.toml", MANIFEST).unwrap();
            shell.write_file("README.md", "[licence](LICENSE-MIT)\n").unwrap();
            shell.write_file("src/lib.rs", "//! A sample.\n").unwrap();
            shell.write_file("LICENSE-MIT", "MIT\n").unwrap();
            shell.write_file("LICENSE-APACHE", "Apache\n").unwrap();
            change(&shell);
        }
        check(&shell).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn complete_crate_is_packaged() {
        checked(|_| {}).unwrap();
    }

    #[test]
    fn missing_metadatum_is_refused() {
        for (begin, name) in [
            ("description", "description"),
            ("license", "license"),
            ("keywords", "keywords"),
            ("categories", "categories"),
            ("rustdoc-args", "package.metadata.docs.rs"),
        ] {
            let lines: Vec<_> = MANIFEST.lines().filter(|line| !line.starts_with(begin)).collect();
            let error = checked(|shell| shell.write_file("Cargo.toml", lines.join("\n")).unwrap());
            assert_eq!(error, Err(format!("Cargo.toml of sample has no {name}")));
        }
    }

    #[test]
    fn missing_file_and_dead_link_are_refused() {
        let error = checked(|shell| shell.remove_path("LICENSE-APACHE").unwrap()).unwrap_err();
        assert!(error.contains("no LICENSE-APACHE"), "{error}");
        let readme = "[guide](../../docs/guide.md)";
        let error = checked(|shell| shell.write_file("README.md", readme).unwrap()).unwrap_err();
        assert!(error.contains("links ../../docs/guide.md"), "{error}");
    }

    const LIST: &str = "Cargo.toml\nREADME.md\ndocs/keys.md";

    #[test]
    fn link_out_of_the_package_is_dead() {
        for dead in ["../../docs/guide.md", "../limiter-core", "docs/gone.md", "docs/"] {
            assert_eq!(dead_links(&format!("text\n[x]({dead}) `[y](z.md)`"), LIST), [dead]);
        }
    }

    #[test]
    fn link_within_the_package_or_to_an_address_is_live() {
        let live =
            "[a](docs/keys.md#part) [b](https://example.com/x.md) [c](#part)\n```\n[x](y.md)\n```";
        assert_eq!(dead_links(live, LIST), [""; 0]);
    }
}
