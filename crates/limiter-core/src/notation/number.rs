//! How whole numbers are written.

use alloc::{format, string::String};

/// Returns the number written as digits, with `_` between them where it helps to read it, or what
/// is wrong.
pub(super) fn parse(text: &str) -> Result<u64, String> {
    let digits = |group: &str| !group.is_empty() && group.bytes().all(|b| b.is_ascii_digit());
    if !text.split('_').all(digits) {
        return Err(format!("{text:?} is no number; use digits, as in 100 or 1_000"));
    }
    let digits = text.bytes().filter(u8::is_ascii_digit).map(|digit| u64::from(digit - b'0'));
    let number = digits.into_iter().try_fold(0_u64, |number, digit| {
        number.checked_mul(10).and_then(|number| number.checked_add(digit))
    });
    number.ok_or_else(|| format!("{text:?} is too large; use at most {}", u64::MAX))
}
