//! What replies of the script `lease` grant.

use limiter_twins::Reply;

use crate::vocabulary::Micros;

/// Permits that the server charged for a lease.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Granted {
    pub(super) key: Vec<u8>,
    pub(super) permits: u64,
    /// For how long after its request it may be spent.
    pub(super) lasts: Micros,
}

/// Returns the leases that a call has brought. Behind the number of keys, a call has the keys of all states, as many other
/// keys, and seven arguments for each state; a lease is a reply `{ 1, reset, left, permits, now, mark }`.
pub(super) fn granted(words: &[Vec<u8>], reply: &Reply) -> Vec<Granted> {
    let number = |word: &[u8]| str::from_utf8(word).ok()?.parse::<u64>().ok();
    let keys = words.get(2).and_then(|word| usize::try_from(number(word)?).ok()).unwrap_or(0);
    let arguments = words.get(3 + keys..).unwrap_or_default().chunks(7);
    let replies = match reply {
        Reply::Array(replies) if keys > 2 => replies.as_slice(),
        reply => std::slice::from_ref(reply),
    };
    let granted = words.iter().skip(3).zip(arguments).zip(replies).filter_map(|it| {
        let ((key, arguments), Reply::Array(numbers)) = it else { return None };
        let [kind, quota, _, _, cost, _, length] = arguments else { return None };
        let [Reply::Integer(1), _, _, Reply::Integer(permits), _, Reply::Integer(mark)] =
            numbers[..]
        else {
            return None;
        };
        let scale = if quota.contains(&b'.') { 10_000 } else { 1 };
        let lasts = match kind.as_slice() {
            b"gcra" => number(length)? / scale,
            _ => u64::try_from(mark).ok()?,
        };
        let permits = u64::try_from(permits).ok()?;
        (permits > number(cost)?).then(|| Granted { key: key.clone(), permits, lasts })
    });
    granted.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_grants_leases() {
        let arguments = ["gcra", " 1 2", "9", "5", "2", "8", "7"];
        let granted_to =
            |permits| Reply::Array([1, 5, 5, permits, 9, 9].map(Reply::Integer).to_vec());
        let call = |keys: &[&str], number: usize| {
            let head = ["EVALSHA", "sha"].iter().map(ToString::to_string);
            let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
            let words = head.chain([keys.len().to_string()]).chain(keys);
            let words = words.chain((0..number).flat_map(|_| arguments.map(str::to_owned)));
            words.map(String::into_bytes).collect::<Vec<_>>()
        };
        let lease = |key: &str, permits| Granted { key: key.into(), permits, lasts: 7 };
        assert_eq!(granted(&call(&["a", "l"], 1), &granted_to(8)), [lease("a", 8)]);
        let replies = vec![granted_to(2), Reply::Nil, granted_to(3)];
        let words = call(&["a", "b", "c", "l", "m", "n"], 3);
        assert_eq!(granted(&words, &Reply::Array(replies)), [lease("c", 3)]);
        let refused = Reply::Array([0, 5, 0, 7].map(Reply::Integer).to_vec());
        assert_eq!(granted(&call(&["a", "l"], 1), &refused), []);
    }
}
