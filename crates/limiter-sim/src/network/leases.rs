//! What replies of the script `lease` grant.

use limiter_twins::Reply;

use crate::vocabulary::Micros;

/// Permits that the server charged for a lease.
pub(super) struct Granted<'a> {
    pub(super) key: &'a [u8],
    pub(super) permits: u64,
    /// For how long after its request it may be spent.
    pub(super) lasts: Micros,
}

/// Returns the leases that a call has brought. Behind the number of keys, a call has the keys of all states, as many other
/// keys, and seven arguments for each state; a lease is a reply `{ 1, reset, left, permits, now, mark }`.
pub(super) fn granted<'a>(words: &'a [Vec<u8>], reply: &Reply) -> Vec<Granted<'a>> {
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
        (permits > number(cost)?).then_some(Granted { key, permits, lasts })
    });
    granted.collect()
}
