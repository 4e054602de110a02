//! The first heading of the changelog is that of the version that is released.

use anyhow::{Context, Result, ensure};

/// Checks that the changelog begins with this version.
pub(super) fn check(changelog: &str, version: &str) -> Result<()> {
    let heading = heading(changelog).context("CHANGELOG.md has no heading of a version")?;
    let found = heading.split(' ').next().unwrap_or_default().trim_matches(['[', ']']);
    ensure!(
        found == version,
        "CHANGELOG.md begins with {heading:?}; write {:?}",
        format!("## {version} - unreleased")
    );
    Ok(())
}

/// Whether the version has no date yet.
pub(super) fn is_undated(changelog: &str) -> bool {
    heading(changelog).is_none_or(|heading| {
        let date = heading.rsplit(' ').next().unwrap_or_default();
        !date.starts_with(|char: char| char.is_ascii_digit()) || date.split('-').count() != 3
    })
}

fn heading(changelog: &str) -> Option<&str> {
    changelog.lines().find_map(|line| line.strip_prefix("## "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_of_the_version_passes() {
        for head in ["## 0.1.0 - unreleased", "## [0.1.0] - 2026-11-26", "## 0.1.0"] {
            check(&format!("# Changelog\n\n{head}\n\n## 0.0.9\n"), "0.1.0").unwrap();
        }
    }

    #[test]
    fn head_of_another_version_is_refused() {
        for head in ["## Unreleased", "## 0.1.1 - 2026-11-26", "## 0.1.00", "### 0.1.0", ""] {
            assert!(check(&format!("# Changelog\n\n{head}\n"), "0.1.0").is_err(), "{head}");
        }
    }

    #[test]
    fn date_is_recognised() {
        assert!(!is_undated("## 0.1.0 - 2026-11-26"));
        for undated in ["## 0.1.0 - unreleased", "## 0.1.0", ""] {
            assert!(is_undated(undated), "{undated}");
        }
    }
}
