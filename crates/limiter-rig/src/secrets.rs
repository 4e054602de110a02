//! Secrets that tests plant, and what must not show them.

use std::error::Error;

/// Planted secrets. No text must contain one of them, also not in part.
pub const SECRETS: [&str; 3] = ["hunter2", "s3cr3t", "tr0ub4dor"];

/// Checks that a text contains no planted secret.
///
/// # Panics
///
/// If it contains one.
#[track_caller]
pub fn assert_hidden(shown: &str, what: &str) {
    for secret in SECRETS {
        assert!(!shown.contains(secret), "{what} is shown as {shown}");
    }
}

/// Returns all that an error shows.
#[must_use]
pub fn texts(error: &dyn Error) -> String {
    let mut texts = format!("{error} {error:?} {error:#?}");
    let mut source = error.source();
    while let Some(error) = source {
        texts += &format!(" {error} {error:?}");
        source = error.source();
    }
    texts
}
