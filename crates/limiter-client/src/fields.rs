//! The values of header fields.

use http::{HeaderMap, HeaderValue};

/// The most bytes of a field that are read. A longer one counts as absent.
const MAX_BYTES: usize = 4_096;

/// Returns the text of each line of a field, without spaces around it.
pub(crate) fn texts<'h>(headers: &'h HeaderMap, name: &str) -> impl Iterator<Item = &'h str> {
    let lines = headers.get_all(name).iter().filter(|line| line.len() <= MAX_BYTES);
    lines.filter_map(|line| Some(line.to_str().ok()?.trim()))
}

/// Returns the lines of a field as one value.
pub(crate) fn joined(headers: &HeaderMap, name: &str) -> Option<Vec<u8>> {
    let lines: Vec<_> = headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
    let value = lines.join(&b", "[..]);
    (!lines.is_empty() && value.len() <= MAX_BYTES).then_some(value)
}
