//! The range of a limiter's capacity.

use crate::{Error, ErrorKind};

pub(super) const MAX_CAPACITY: usize = 1 << 28;

pub(crate) fn check_capacity(keys: usize) -> Result<(), Error> {
    check("capacity", keys, MAX_CAPACITY)
}

/// Returns an error if a setting is not from 1 to `most`.
pub(super) fn check(setting: &str, value: usize, most: usize) -> Result<(), Error> {
    if (1..=most).contains(&value) {
        return Ok(());
    }
    let (kind, value) = (ErrorKind::InvalidSetting, value.to_string());
    Err(Error::invalid(kind, setting, &value, format!("use 1 to {most}")))
}
