//! The scripts `enter`, `renew` and `leave`: permits of requests in flight, in a sorted set of their ids by their
//! deadlines.

use std::collections::BTreeMap;

use crate::{
    call::Call,
    keyspace::{Keyspace, WrongType},
    reply::Reply,
    text::expiry,
};

/// The ids of the permits of a key, and their deadlines.
type Permits = BTreeMap<Vec<u8>, i64>;

/// No permit has a deadline that is further away, in microseconds.
const DAY: i64 = 86_400_000_000;

const FOREIGN: &str = "ERR a member of the set is not a permit, because its deadline is more than a day ahead: delete the key";

pub(super) fn enter(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let (limit, lasts) = (call.arguments.permits()?, call.arguments.number()?);
    let (now, id) = (call.now, call.arguments.text()?);
    let key = *call.keys.first().ok_or_else(|| Reply::error("ERR a key is missing"))?;
    let is_admitted = has_room(call.space, key, limit, now)?;
    let (held, is_foreign) = call.space.with_sorted_set(key, |permits| {
        if is_admitted && !id.is_empty() {
            permits.insert(id.into(), now + lasts);
        }
        let is_foreign = permits.values().any(|deadline| *deadline > now + DAY);
        (i64::try_from(permits.len()).unwrap_or(i64::MAX), is_foreign)
    })?;
    if is_admitted && !id.is_empty() {
        extend(call, key, lasts);
    }
    match is_admitted {
        false if is_foreign => Err(Reply::error(FOREIGN)),
        _ => Ok(Reply::integers([i64::from(is_admitted), held])),
    }
}

pub(super) fn renew(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let (lasts, mut replies) = (call.arguments.number()?, Vec::new());
    for key in call.keys.clone() {
        let count = call.arguments.number()?;
        let ids: Result<Vec<_>, Reply> = (0..count).map(|_| call.arguments.text()).collect();
        let limits: Result<Vec<_>, Reply> = (0..count).map(|_| call.arguments.permits()).collect();
        let permits: Vec<_> = ids?.into_iter().zip(limits?).collect();
        let Ok(renewed) = renew_key(call, key, &permits, lasts) else {
            replies.extend(permits.iter().map(|_| replied("ZMSCORE", Err(WrongType))));
            continue;
        };
        if renewed.iter().any(|reply| *reply > 0) {
            extend(call, key, lasts);
        }
        replies.extend(renewed.into_iter().map(Reply::Integer));
    }
    Ok(Reply::Array(replies))
}

/// Returns for each permit 1 if it was kept, 2 if it was restored, and 0 if it is lost.
fn renew_key(
    call: &mut Call<'_>,
    key: &[u8],
    permits: &[(&str, u64)],
    lasts: i64,
) -> Result<Vec<i64>, WrongType> {
    let (now, deadline) = (call.now, call.now + lasts);
    let mut renewed = call.space.with_sorted_set(key, |held| {
        let kept = |(id, _): &(&str, u64)| match held.get_mut(id.as_bytes()) {
            Some(score) => {
                *score = deadline;
                1
            }
            None => 0,
        };
        permits.iter().map(kept).collect::<Vec<_>>()
    })?;
    for ((id, limit), reply) in permits.iter().zip(&mut renewed) {
        if *reply == 0 && has_room(call.space, key, *limit, now)? {
            call.space.with_sorted_set(key, |held| held.insert((*id).into(), deadline))?;
            *reply = 2;
        }
    }
    Ok(renewed)
}

pub(super) fn leave(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let mut replies = Vec::new();
    for key in call.keys.clone() {
        let ids: Result<Vec<_>, Reply> =
            (0..call.arguments.number()?).map(|_| call.arguments.text()).collect();
        let ids = ids?;
        let removed = call.space.with_sorted_set(key, |permits| {
            let count = ids.iter().filter(|id| permits.remove(id.as_bytes()).is_some()).count();
            i64::try_from(count).unwrap_or(i64::MAX)
        });
        replies.push(replied("ZREM", removed));
    }
    Ok(Reply::Array(replies))
}

/// Returns whether fewer permits than a limit are held, after those are removed whose deadlines are over if that
/// matters.
fn has_room(space: &mut Keyspace, key: &[u8], limit: u64, now: i64) -> Result<bool, WrongType> {
    let has_room = |permits: &mut Permits| (permits.len() as u64) < limit;
    if space.with_sorted_set(key, has_room)? {
        return Ok(true);
    }
    space.with_sorted_set(key, |permits| permits.retain(|_, deadline| *deadline > now))?;
    space.with_sorted_set(key, has_room)
}

/// Lets a key last a second longer than a permit, unless it lasts longer.
fn extend(call: &mut Call<'_>, key: &[u8], lasts: i64) {
    let millis = expiry(lasts) - 1 + 1_000;
    if call.space.left(key) < millis {
        call.space.expire(key, millis);
    }
}

/// Returns the reply for one of several keys: a number, or the error of a command as text.
fn replied(command: &str, result: Result<i64, WrongType>) -> Reply {
    match result {
        Ok(number) => Reply::Integer(number),
        Err(_) => Reply::Text(format!("{command}: {}", WrongType::TEXT).into()),
    }
}
