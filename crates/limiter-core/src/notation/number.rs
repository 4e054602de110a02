//! Whole numbers as text.

use alloc::{format, string::String};

use crate::error::excerpt;

/// Returns a number of digits with `_` between them, or the fault of `what`.
///
/// A number above `u64::MAX` is read as `u64::MAX`: no limit can use either, and its own error states
/// the largest value.
pub(super) fn parse(what: &str, text: &str) -> Result<u64, String> {
    let digits = |group: &str| !group.is_empty() && group.bytes().all(|b| b.is_ascii_digit());
    if text.is_empty() {
        return Err(format!("{what} is missing; use digits, as in 100 or 1_000"));
    }
    if !text.split('_').all(digits) {
        let text = excerpt(text);
        return Err(format!(
            "{what} {text:?} is not a whole number; use digits, as in 100 or 1_000"
        ));
    }
    let digits = text.bytes().filter(u8::is_ascii_digit).map(|digit| u64::from(digit - b'0'));
    Ok(digits.fold(0, |number: u64, digit| number.saturating_mul(10).saturating_add(digit)))
}
