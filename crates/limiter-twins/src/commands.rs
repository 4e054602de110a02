//! The commands that are no scripts: for tests that plant values and read them.

use crate::{
    keyspace::{Keyspace, WrongType},
    reply::Reply,
};

impl From<WrongType> for Reply {
    fn from(_: WrongType) -> Self {
        Self::error(WrongType::TEXT)
    }
}

/// Runs a command, or returns `None` if it is unknown or has other arguments.
pub(crate) fn run(space: &mut Keyspace, name: &str, arguments: &[&[u8]]) -> Option<Reply> {
    let reply = match (name, arguments) {
        ("SET", [key, text]) => set(space, key, text, None),
        ("SET", [key, text, px, millis]) if px.eq_ignore_ascii_case(b"PX") => {
            let millis = number(millis).filter(|millis| *millis > 0)?;
            set(space, key, text, Some(millis))
        }
        ("GET", [key]) => match space.text(key) {
            Ok(text) => text.map_or(Reply::Nil, |text| Reply::Text(text.to_vec())),
            Err(error) => error.into(),
        },
        ("DEL", keys) => count(keys.iter().filter(|key| space.delete(key)).count()),
        ("RPUSH", [key, elements @ ..]) if !elements.is_empty() => match space.list(key) {
            Ok(list) => {
                let elements = elements.iter().map(|element| element.to_vec());
                let list: Vec<_> = list.iter().cloned().chain(elements).collect();
                let length = count(list.len());
                space.set_list(key, list);
                length
            }
            Err(error) => error.into(),
        },
        ("LRANGE", [key, start, stop]) => {
            let (start, stop) = (number(start)?, number(stop)?);
            match space.list(key) {
                Ok(list) => range(list, start, stop),
                Err(error) => error.into(),
            }
        }
        ("ZADD", [key, score, member]) => {
            let (score, member) = (number(score)?, member.to_vec());
            match space.with_sorted_set(key, |members| members.insert(member, score)) {
                Ok(before) => count(usize::from(before.is_none())),
                Err(error) => error.into(),
            }
        }
        ("ZCARD", [key]) => match space.with_sorted_set(key, |members| members.len()) {
            Ok(members) => count(members),
            Err(error) => error.into(),
        },
        ("PTTL", [key]) => Reply::Integer(space.left(key)),
        ("FLUSHALL", []) => {
            space.clear();
            Reply::ok()
        }
        _ => return None,
    };
    Some(reply)
}

fn set(space: &mut Keyspace, key: &[u8], text: &[u8], expiry: Option<i64>) -> Reply {
    space.set(key, text.to_vec(), expiry);
    Reply::ok()
}

fn number(word: &[u8]) -> Option<i64> {
    str::from_utf8(word).ok()?.parse().ok()
}

fn count(number: usize) -> Reply {
    Reply::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

/// Returns elements of a list. Negative places count from its end.
fn range(list: &[Vec<u8>], start: i64, stop: i64) -> Reply {
    let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
    let place = |place: i64| if place < 0 { place.saturating_add(length) } else { place };
    let start = usize::try_from(place(start)).unwrap_or(0);
    let end = usize::try_from(place(stop).saturating_add(1)).unwrap_or(0).min(list.len());
    let elements = list.get(start..end).unwrap_or_default();
    Reply::Array(elements.iter().cloned().map(Reply::Text).collect())
}
