//! What replies of the script `lease` grant.

use limiter_double::Reply;

use crate::vocabulary::Micros;

/// Permits that the server charged for a lease.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Granted {
    pub(super) key: Vec<u8>,
    pub(super) permits: u64,
    /// For how long after its request it may be spent.
    pub(super) lasts: Micros,
    /// Whether the check was refused, so that nothing is charged for its caller.
    pub(super) is_refused: bool,
}

/// Returns the leases that a call has brought. Behind the number of keys, a call has the keys, and nine arguments for each; a lease is a reply `{ 1, reset, left, permits, now, mark }`. A lease
/// that begins later is behind it, or behind `{ 0, reset, left, wait }`: `permits, now, debt, wait`.
pub(super) fn granted(words: &[Vec<u8>], reply: &Reply) -> Vec<Granted> {
    let number = |word: &[u8]| str::from_utf8(word).ok()?.parse::<u64>().ok();
    let keys = words.get(2).and_then(|word| usize::try_from(number(word)?).ok()).unwrap_or(0);
    let arguments = words.get(3 + keys..).unwrap_or_default().chunks(9);
    let replies = match reply {
        Reply::Array(replies) if keys > 1 => replies.as_slice(),
        reply => std::slice::from_ref(reply),
    };
    let granted = words.iter().skip(3).zip(arguments).zip(replies).filter_map(|it| {
        let ((key, arguments), Reply::Array(numbers)) = it else { return None };
        let [kind, _, _, _, _, ticks, cost, _, length] = arguments else { return None };
        let length = number(length)? / number(ticks)?.max(1);
        let (charged, later) = match numbers.as_slice() {
            [Reply::Integer(1), _, _, permits, _, mark, later @ ..] => {
                (Some((permits, mark)), later)
            }
            [Reply::Integer(0), _, _, _, later @ ..] => (None, later),
            _ => return None,
        };
        let charged = charged.filter(|(permits, _)| natural(permits) > number(cost)).map(|it| {
            let lasts = if kind == b"gcra" { length } else { natural(it.1).unwrap_or(0) };
            (it.0, lasts)
        });
        let later = match later {
            [permits, _, _, begins] if kind == b"gcra" => {
                Some((permits, natural(begins)? + length))
            }
            [permits, _, ends, _] => Some((permits, natural(ends)?)),
            _ => None,
        };
        let is_refused = numbers.first() == Some(&Reply::Integer(0));
        let granted = |(permits, lasts)| {
            Some(Granted { key: key.clone(), permits: natural(permits)?, lasts, is_refused })
        };
        Some(charged.into_iter().chain(later).filter_map(granted).collect::<Vec<_>>())
    });
    granted.flatten().collect()
}

fn natural(reply: &Reply) -> Option<u64> {
    let Reply::Integer(number) = reply else { return None };
    u64::try_from(*number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_grants_leases() {
        let arguments = ["gcra", "gcra.1s", "9", "5", "99", "1", "2", "8", "7"];
        let granted_to =
            |permits| Reply::Array([1, 5, 5, permits, 9, 9].map(Reply::Integer).to_vec());
        let call = |keys: &[&str], number: usize| {
            let head = ["EVALSHA", "sha"].iter().map(ToString::to_string);
            let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
            let words = head.chain([keys.len().to_string()]).chain(keys);
            let words = words.chain((0..number).flat_map(|_| arguments.map(str::to_owned)));
            words.map(String::into_bytes).collect::<Vec<_>>()
        };
        let lease =
            |key: &str, permits| Granted { key: key.into(), permits, lasts: 7, is_refused: false };
        assert_eq!(granted(&call(&["a"], 1), &granted_to(8)), [lease("a", 8)]);
        let replies = vec![granted_to(2), Reply::Nil, granted_to(3)];
        let words = call(&["a", "b", "c"], 3);
        assert_eq!(granted(&words, &Reply::Array(replies)), [lease("c", 3)]);
        let refused = Reply::Array([0, 5, 0, 7].map(Reply::Integer).to_vec());
        assert_eq!(granted(&call(&["a"], 1), &refused), []);
        let later = Granted { lasts: 7 + 3, is_refused: true, ..lease("a", 4) };
        let refused = Reply::Array([0, 5, 0, 3, 4, 9, 9, 3].map(Reply::Integer).to_vec());
        assert_eq!(granted(&call(&["a"], 1), &refused), [later]);
    }
}
