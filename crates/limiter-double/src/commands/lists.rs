//! Lists.

use super::{either, integer, range};
use crate::{
    keyspace::{Keyspace, List},
    reply::Reply,
};

pub(crate) fn lindex(space: &mut Keyspace, arguments: &[&[u8]]) -> Reply {
    let [key, place, ..] = arguments else { return Reply::Nil };
    // The key comes first.
    let element = |list: &List| match integer(place) {
        Ok(place) => Reply::optional(at(list, place).and_then(|it| list.get(it))),
        Err(_) if list.is_empty() => Reply::Nil,
        Err(error) => error,
    };
    space.read(key, element).into()
}

pub(crate) fn llen(space: &mut Keyspace, arguments: &[&[u8]]) -> Reply {
    let [key, ..] = arguments else { return Reply::Nil };
    space.read(key, |list: &List| Reply::count(list.len())).into()
}

pub(crate) fn lrange(space: &mut Keyspace, arguments: &[&[u8]]) -> Reply {
    let [key, start, stop, ..] = arguments else { return Reply::Nil };
    let elements = |start, stop| {
        space.read(key, |list: &List| {
            Reply::Array(list.range(range(list.len(), start, stop)).map(Reply::bulk).collect())
        })
    };
    either(integer(start).and_then(|start| Ok(elements(start, integer(stop)?).into())))
}

/// `LREM key count element`.
pub(crate) fn lrem(space: &mut Keyspace, arguments: &[&[u8]]) -> Reply {
    let [key, count, element, ..] = arguments else { return Reply::Nil };
    let remove = |list: &mut List, count: i64| {
        let mut places: Vec<_> = (0..list.len())
            .filter(|place| list.get(*place).is_some_and(|it| it == element))
            .collect();
        let most = if count == 0 {
            places.len()
        } else {
            usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX)
        };
        if count < 0 {
            places.drain(..places.len().saturating_sub(most));
        }
        places.truncate(most);
        for place in places.iter().rev() {
            list.remove(*place);
        }
        Reply::count(places.len())
    };
    either(integer(count).map(|count| space.change(key, |list| remove(list, count)).into()))
}

pub(crate) fn lset(space: &mut Keyspace, arguments: &[&[u8]]) -> Reply {
    let [key, place, element, ..] = arguments else { return Reply::Nil };
    if space.get(key).is_none() {
        return Reply::error("ERR no such key");
    }
    let set = |list: &mut List, place| match at(list, place).and_then(|it| list.get_mut(it)) {
        Some(old) => {
            *old = element.to_vec();
            Reply::ok()
        }
        None => Reply::error("ERR index out of range"),
    };
    // The type comes first.
    let is_list = space.read(key, |_: &List| ());
    match is_list {
        Err(error) => Err::<Reply, _>(error).into(),
        Ok(()) => {
            either(integer(place).map(|place| space.change(key, |list| set(list, place)).into()))
        }
    }
}

pub(crate) fn ltrim(space: &mut Keyspace, arguments: &[&[u8]]) -> Reply {
    let [key, start, stop, ..] = arguments else { return Reply::Nil };
    let trim = |list: &mut List, start, stop| {
        let kept = range(list.len(), start, stop);
        list.truncate(kept.end);
        list.drain(..kept.start.min(list.len()));
        Reply::ok()
    };
    either(integer(start).and_then(|start| {
        let stop = integer(stop)?;
        Ok(space.change(key, |list| trim(list, start, stop)).into())
    }))
}

pub(crate) fn rpush(space: &mut Keyspace, arguments: &[&[u8]]) -> Reply {
    let [key, elements @ ..] = arguments else { return Reply::Nil };
    let push = |list: &mut List| {
        list.extend(elements.iter().map(|element| element.to_vec()));
        Reply::count(list.len())
    };
    space.change(key, push).into()
}

/// Returns a place in the list. A negative one counts from its end.
fn at(list: &List, place: i64) -> Option<usize> {
    let length = i64::try_from(list.len()).ok()?;
    usize::try_from(if place < 0 { place.checked_add(length)? } else { place }).ok()
}
