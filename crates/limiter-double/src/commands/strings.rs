//! Strings.

use super::{either, integer, syntax};
use crate::{keyspace::Keyspace, reply::Reply};

pub(crate) fn get(space: &mut Keyspace, arguments: &[&[u8]]) -> Reply {
    let [key, ..] = arguments else { return Reply::Nil };
    space.text(key).map(Reply::optional).into()
}

/// `SET key value [PX milliseconds]`.
pub(crate) fn set(space: &mut Keyspace, arguments: &[&[u8]]) -> Reply {
    let (key, text, expiry) = match arguments {
        [key, text] => (key, text, Ok(None)),
        [key, text, px, millis] if px.eq_ignore_ascii_case(b"px") => {
            let millis = integer(millis).and_then(|millis| {
                match millis {
                    1.. => space.expiry_in(millis).map(Some),
                    _ => None,
                }
                .ok_or_else(|| Reply::Error(space.version.invalid_expiry("set")))
            });
            (key, text, millis)
        }
        _ => return syntax(),
    };
    either(expiry.map(|expiry| {
        space.set(key, text, expiry);
        Reply::ok()
    }))
}
