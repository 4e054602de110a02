//! Keys of any type.

use super::{either, integer};
use crate::{
    keyspace::{Keyspace, Value},
    reply::Reply,
};

pub(crate) fn del(space: &mut Keyspace, keys: &[&[u8]]) -> Reply {
    Reply::count(keys.iter().filter(|key| space.delete(key)).count())
}

pub(crate) fn exists(space: &mut Keyspace, keys: &[&[u8]]) -> Reply {
    Reply::count(keys.iter().filter(|key| space.get(key).is_some()).count())
}

pub(crate) fn flushall(space: &mut Keyspace, arguments: &[&[u8]]) -> Reply {
    let is_known =
        |word: &[u8]| [&b"sync"[..], b"async"].iter().any(|it| word.eq_ignore_ascii_case(it));
    match arguments {
        [] => {}
        [word] if is_known(word) => {}
        _ => return super::syntax(),
    }
    space.clear();
    Reply::ok()
}

pub(crate) fn persist(space: &mut Keyspace, arguments: &[&[u8]]) -> Reply {
    let [key, ..] = arguments else { return Reply::Nil };
    let has_expiry = space.left(key) >= 0;
    if has_expiry {
        space.expire(key, None);
    }
    Reply::Integer(has_expiry.into())
}

pub(crate) fn pexpire(space: &mut Keyspace, arguments: &[&[u8]]) -> Reply {
    let [key, millis, ..] = arguments else { return Reply::Nil };
    either(integer(millis).map(|millis| match space.expiry_in(millis) {
        Some(at) => Reply::Integer(space.expire(key, Some(at)).into()),
        None => Reply::Error(space.version.invalid_expiry("pexpire")),
    }))
}

pub(crate) fn ping(_: &mut Keyspace, arguments: &[&[u8]]) -> Reply {
    match arguments {
        [] => Reply::Status("PONG".to_owned()),
        [text] => Reply::bulk(text),
        _ => Reply::error("ERR wrong number of arguments for 'ping' command"),
    }
}

pub(crate) fn pttl(space: &mut Keyspace, arguments: &[&[u8]]) -> Reply {
    let [key, ..] = arguments else { return Reply::Nil };
    Reply::Integer(space.left(key))
}

pub(crate) fn time(space: &mut Keyspace, _: &[&[u8]]) -> Reply {
    let now = space.now_micros();
    let parts = [now.div_euclid(1_000_000), now.rem_euclid(1_000_000)];
    Reply::Array(parts.map(|part| Reply::bulk(part.to_string())).to_vec())
}

pub(crate) fn type_of(space: &mut Keyspace, arguments: &[&[u8]]) -> Reply {
    let [key, ..] = arguments else { return Reply::Nil };
    let name = match space.get(key).map(|stored| &stored.value) {
        None => "none",
        Some(Value::Text(_)) => "string",
        Some(Value::List(_)) => "list",
        Some(Value::Hash(_)) => "hash",
        Some(Value::SortedSet(_)) => "zset",
    };
    Reply::Status(name.to_owned())
}
