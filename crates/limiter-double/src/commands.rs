//! What commands do. Their arguments are as many as the table says.

pub(crate) mod admin;
pub(crate) mod hashes;
pub(crate) mod keys;
pub(crate) mod lists;
pub(crate) mod sorted_sets;
pub(crate) mod strings;

use crate::{number, reply::Reply};

const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
const SYNTAX: &str = "ERR syntax error";

fn syntax() -> Reply {
    Reply::error(SYNTAX)
}

fn integer(word: &[u8]) -> Result<i64, Reply> {
    number::integer(word).ok_or_else(|| Reply::error(NOT_AN_INTEGER))
}

/// Returns the reply to arguments, or the error that they are.
fn either(result: Result<Reply, Reply>) -> Reply {
    result.unwrap_or_else(|error| error)
}

/// Returns the elements from one place to another. Negative places count from the end.
fn range(length: usize, start: i64, stop: i64) -> std::ops::Range<usize> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let place = |place: i64| if place < 0 { place.saturating_add(length).max(0) } else { place };
    let (start, end) =
        (place(start), (if stop < 0 { stop + length } else { stop }).saturating_add(1));
    let (start, end) = (start.min(length), end.clamp(0, length));
    let at = |place| usize::try_from(place).unwrap_or(0);
    at(start)..at(end.max(start))
}
