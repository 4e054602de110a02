//! The script `log`: checks keys by a list that their own quota alone has written.
//!
//! It decides by the numbers of a few elements, as the script does, and not by all entries, which the script does not
//! read either. That both are the same is a test.

use std::iter;

use crate::{
    call::Call,
    reply::Reply,
    text::{digits, expiry, numbers, time},
};

/// How many entries may have ended.
const MAX_ENDED: usize = 64;

/// A quota by a log or by sub-windows.
struct Quota<'a> {
    /// ` slot span horizon`, as it is written.
    text: &'a str,
    slot: i64,
    span: i64,
    permits: i64,
}

/// What is read of a list.
struct List {
    /// The newest entry as it was written, when it was made, and its permits.
    written: String,
    newest: [i64; 2],
    largest: i64,
    /// How many entries have ended.
    ended: usize,
    /// When the oldest entry ends that counts, and its permits.
    oldest: [i64; 2],
    /// How many permits count.
    counted: i64,
}

impl<'a> Quota<'a> {
    fn read(call: &mut Call<'a>) -> Result<Self, Reply> {
        let (text, permits) = (call.arguments.text()?, call.arguments.number()?);
        match numbers(text.trim()).as_deref() {
            Some(&[slot, span, _]) if slot > 0 => Ok(Self { text, slot, span, permits }),
            _ => Err(Reply::error(format!("ERR no log has {text:?}"))),
        }
    }

    /// Returns when an entry ends.
    const fn end_of(&self, at: i64) -> i64 {
        at.saturating_sub(at % self.slot).saturating_add(self.span)
    }

    /// Reads a list, `None` if the script `policy` decides.
    fn list(&self, list: &[Vec<u8>], now: i64) -> Option<List> {
        let texts = list.iter().map(|element| str::from_utf8(element).ok());
        let mut texts = texts.take(MAX_ENDED + 2);
        let head = texts.next()??.strip_suffix(self.text)?;
        let &[at, count, total, largest] = numbers(head)?.as_slice() else { return None };
        if time(head.split(' ').next()?)? > now {
            return None;
        }
        let entries = texts.map(|text| {
            let (at, count) = text?.split_once(' ')?;
            Some([time(at)?, digits(count)?])
        });
        let (mut ended, mut counted) = (0, total);
        for entry in entries.chain(iter::once(Some([at, count]))) {
            let [at_of, count_of] = entry?;
            let oldest = [self.end_of(at_of), count_of];
            if oldest[0] > now {
                let is_sound = counted >= count && oldest[0] <= self.end_of(at);
                let written = head.split(' ').take(2).collect::<Vec<_>>().join(" ");
                let newest = [at, count];
                let list = List { written, newest, largest, ended, oldest, counted };
                return is_sound.then_some(list);
            }
            (ended, counted) = (ended + 1, counted.saturating_sub(count_of));
            if ended > MAX_ENDED {
                return None;
            }
        }
        None
    }
}

pub(super) fn run(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let keys = call.keys.clone();
    let quotas: Result<Vec<_>, Reply> = keys.iter().map(|_| Quota::read(call)).collect();
    let costs = call.arguments.costs(keys.len())?;
    let mut replies = Vec::new();
    for ((key, quota), cost) in keys.into_iter().zip(quotas?).zip(costs) {
        let cost = i64::try_from(cost).unwrap_or(i64::MAX);
        replies.push(check(call, key, &quota, cost).unwrap_or(Reply::Nil));
    }
    Ok(Reply::all(replies))
}

/// Checks a key, `None` if the script `policy` decides.
fn check(call: &mut Call<'_>, key: &[u8], quota: &Quota<'_>, cost: i64) -> Option<Reply> {
    let (now, permits) = (call.now, quota.permits);
    let elements = call.space.list(key).ok()?;
    let found = if elements.is_empty() { None } else { Some(quota.list(elements, now)?) };
    let mut older = elements.get(1..).unwrap_or_default().to_vec();
    let Some(List { written, newest: [at, count], largest, ended, oldest, counted }) = found else {
        if cost > permits {
            return Some(Reply::integers([0, 0, permits, -1]));
        }
        let head = format!("{now} {cost} {cost} {permits}");
        return Some(admitted(call, key, quota, (head, Vec::new()), permits - cost));
    };
    if counted.saturating_add(cost) > permits {
        let reset = quota.end_of(at) - now;
        let wait = if cost > permits { -1 } else { oldest[0] - now };
        let is_enough = counted - oldest[1] + cost <= permits;
        let left = (permits - counted).max(0);
        return (cost > permits || is_enough).then(|| Reply::integers([0, reset, left, wait]));
    }
    older.drain(..ended.min(older.len()));
    let is_in_slot = at >= now - now % quota.slot;
    if !is_in_slot {
        older.push(written.into());
    }
    let (count, total) = (if is_in_slot { count + cost } else { cost }, counted + cost);
    let head = format!("{now} {count} {total} {}", largest.max(permits));
    Some(admitted(call, key, quota, (head, older), permits - total))
}

/// Writes a list with the newest entry's numbers and the older elements. Returns the admission.
fn admitted(
    call: &mut Call<'_>,
    key: &[u8],
    quota: &Quota<'_>,
    (head, older): (String, Vec<Vec<u8>>),
    left: i64,
) -> Reply {
    let reset = quota.span - call.now % quota.slot;
    let head = (head + quota.text).into_bytes();
    call.space.set_list(key, iter::once(head).chain(older).collect());
    call.space.expire(key, expiry(reset));
    Reply::integers([1, reset, left])
}
