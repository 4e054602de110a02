//! Texts of errors without credentials.

use std::fmt;

/// The most bytes of a text. The last error of each host is kept.
const LONGEST: usize = 1_000;

/// Returns the text of an error, in which URIs have only their host and path.
///
/// Without the texts of its sources: a bound by which these could be read would exclude boxed errors, or would not compile
/// in a spawned task.
pub(crate) fn text_of(error: &impl fmt::Display) -> String {
    let text = error.to_string();
    let mut text: String = text.split_inclusive(char::is_whitespace).map(without_secrets).collect();
    let is_end = |end: &usize| text.is_char_boundary(*end);
    text.truncate((0..=LONGEST).rev().find(is_end).unwrap_or(0));
    text
}

/// Returns a word without what may be a query, or a user's name and password. No URI has a space in it.
fn without_secrets(word: &str) -> String {
    if !word.contains(['/', '@']) {
        return word.to_owned();
    }
    let (uri, space) = word.split_at(word.trim_end().len());
    let uri = uri.split(['?', '#']).next().unwrap_or_default();
    // Several URIs may be one word.
    let parts: Vec<_> = uri.split("//").map(without_user).collect();
    parts.join("//") + space
}

/// Returns an authority and its path without the user's name and password.
fn without_user(text: &str) -> String {
    let (authority, path) = text.split_at(text.find('/').unwrap_or(text.len()));
    authority.rsplit('@').next().unwrap_or_default().to_owned() + path
}
