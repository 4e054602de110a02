//! Hashes.

use crate::{
    keyspace::{Hash, Keyspace},
    reply::Reply,
};

fn value<'a>(hash: &'a Hash, field: &[u8]) -> Option<&'a [u8]> {
    hash.iter().find(|(it, _)| it == field).map(|(_, value)| value.as_slice())
}

pub(crate) fn hdel(space: &mut Keyspace, arguments: &[&[u8]]) -> Reply {
    let [key, fields @ ..] = arguments else { return Reply::Nil };
    let delete = |hash: &mut Hash| {
        let before = hash.len();
        hash.retain(|(field, _)| !fields.contains(&field.as_slice()));
        Reply::count(before - hash.len())
    };
    space.change(key, delete).into()
}

pub(crate) fn hget(space: &mut Keyspace, arguments: &[&[u8]]) -> Reply {
    let [key, field, ..] = arguments else { return Reply::Nil };
    space.read(key, |hash: &Hash| Reply::optional(value(hash, field))).into()
}

pub(crate) fn hgetall(space: &mut Keyspace, arguments: &[&[u8]]) -> Reply {
    let [key, ..] = arguments else { return Reply::Nil };
    let all = |hash: &Hash| {
        Reply::Array(hash.iter().flat_map(|(field, it)| [field, it]).map(Reply::bulk).collect())
    };
    space.read(key, all).into()
}

pub(crate) fn hlen(space: &mut Keyspace, arguments: &[&[u8]]) -> Reply {
    let [key, ..] = arguments else { return Reply::Nil };
    space.read(key, |hash: &Hash| Reply::count(hash.len())).into()
}

pub(crate) fn hmget(space: &mut Keyspace, arguments: &[&[u8]]) -> Reply {
    let [key, fields @ ..] = arguments else { return Reply::Nil };
    let values = |hash: &Hash| {
        Reply::Array(fields.iter().map(|field| Reply::optional(value(hash, field))).collect())
    };
    space.read(key, values).into()
}

pub(crate) fn hset(space: &mut Keyspace, arguments: &[&[u8]]) -> Reply {
    let [key, pairs @ ..] = arguments else { return Reply::Nil };
    let (pairs, []) = pairs.as_chunks::<2>() else {
        return Reply::error("ERR wrong number of arguments for 'hset' command");
    };
    let set = |hash: &mut Hash| {
        let before = hash.len();
        for [field, value] in pairs {
            match hash.iter_mut().find(|(it, _)| it == field) {
                Some((_, old)) => *old = value.to_vec(),
                None => hash.push((field.to_vec(), value.to_vec())),
            }
        }
        Reply::count(hash.len() - before)
    };
    space.change(key, set).into()
}
