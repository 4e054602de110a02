//! Licence expressions by SPDX, such as `MIT OR (Apache-2.0 AND ISC)`.

use std::iter::Peekable;

use anyhow::{Result, bail, ensure};

/// Returns whether the licences that `allowed` accepts satisfy the expression.
///
/// A slash counts as `OR`, as in manifests of old crates. An exception is a part of its licence's name:
/// `Apache-2.0 WITH LLVM-exception`. It is an error if the expression can't be read.
pub(super) fn holds(expression: &str, allowed: impl Fn(&str) -> bool) -> Result<bool> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let result = any(&mut words, &allowed)?;
    let rest = words.next();
    ensure!(rest.is_none(), "{expression:?}: unexpected {:?}", rest.unwrap_or_default());
    Ok(result)
}

fn any<'a>(
    words: &mut Peekable<impl Iterator<Item = &'a str>>,
    allowed: &impl Fn(&str) -> bool,
) -> Result<bool> {
    let mut result = all(words, allowed)?;
    while words.next_if_eq(&"OR").is_some() {
        result |= all(words, allowed)?;
    }
    Ok(result)
}

fn all<'a>(
    words: &mut Peekable<impl Iterator<Item = &'a str>>,
    allowed: &impl Fn(&str) -> bool,
) -> Result<bool> {
    let mut result = one(words, allowed)?;
    while words.next_if_eq(&"AND").is_some() {
        result &= one(words, allowed)?;
    }
    Ok(result)
}

fn one<'a>(
    words: &mut Peekable<impl Iterator<Item = &'a str>>,
    allowed: &impl Fn(&str) -> bool,
) -> Result<bool> {
    match words.next() {
        Some("(") => {
            let result = any(words, allowed)?;
            ensure!(words.next() == Some(")"), "a parenthesis is not closed");
            Ok(result)
        }
        None | Some(")" | "AND" | "OR" | "WITH") => bail!("a licence is missing"),
        Some(name) if words.next_if_eq(&"WITH").is_some() => {
            Ok(allowed(&format!("{name} WITH {}", words.next().unwrap_or_default())))
        }
        Some(name) => Ok(allowed(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(name: &str) -> bool {
        ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].contains(&name)
    }

    #[test]
    fn expressions_hold_by_their_operators() {
        for (expression, holds_by) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("GPL-3.0/MIT", true),
            ("GPL-3.0 AND MIT", false),
            ("GPL-3.0 AND ISC OR MIT", true),
            ("GPL-3.0 AND (ISC OR MIT)", false),
            ("(GPL-3.0 OR MIT) AND ISC", true),
            ("Apache-2.0", false),
            ("Apache-2.0 WITH LLVM-exception", true),
        ] {
            assert_eq!(holds(expression, allowed).unwrap(), holds_by, "{expression}");
        }
    }

    #[test]
    fn invalid_expressions_are_refused() {
        for invalid in ["", "MIT OR", "AND MIT", "(MIT", "MIT)", "MIT ISC"] {
            assert!(holds(invalid, allowed).is_err(), "{invalid}");
        }
    }
}
