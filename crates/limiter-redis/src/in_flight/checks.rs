//! Names and limits that a limiter can have.

use limiter_core::{Error, ErrorKind};

/// Returns an error if a limiter can't have the name. The rules are those of policies.
pub(super) fn check_name(name: &str) -> Result<(), Error> {
    let fault = if name.is_empty() {
        "use at least one character"
    } else if name.len() > 64 {
        "use at most 64 bytes"
    } else if !name.bytes().all(|byte| matches!(byte, 0x20..=0x7e)) {
        "use printable ASCII only"
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::InvalidName, format!("invalid limiter name {name:?}: {fault}")))
}

/// Returns an error if `limit` can't be a limiter's own.
pub(super) fn check_limit(limit: u32) -> Result<(), Error> {
    if limit > 0 {
        return Ok(());
    }
    let message = "invalid limit \"0\": it would refuse every request; use 1 or more";
    Err(Error::new(ErrorKind::InvalidSetting, message))
}
