//! Servers that are wrong on purpose about requests in flight.

use std::collections::BTreeMap;

use limiter_double::{Reply, Server as Redis, Stored};

use super::{first_argument, number};
use crate::{vocabulary::ProcessId, wrong::Wrong};

/// The last milliseconds of Unix time in which keys of requests in flight exist, if renewals don't change that.
#[derive(Debug, Default)]
pub(super) struct Expiries(BTreeMap<Vec<u8>, i64>);

impl Expiries {
    /// Deletes a key that has expired, and returns the reply to a call. A call that enters lets the key expire later.
    pub(super) fn run(
        &mut self,
        redis: &mut Redis,
        words: &[Vec<u8>],
        script: &str,
        now: i64,
    ) -> Reply {
        let keys = super::super::keys(words);
        for key in &keys {
            if self.0.get(key).is_some_and(|at| now / 1_000 > *at) {
                redis.execute(&[b"DEL".as_slice(), key], now);
                self.0.remove(key);
            }
        }
        let reply = redis.execute(words, now);
        for key in keys.into_iter().filter(|_| script == "enter") {
            if let Some(Stored { expires_at: Some(at), .. }) = redis.stored(&key) {
                self.0.insert(key, *at);
            }
        }
        reply
    }
}

/// Changes a call about requests in flight, and when it is executed.
pub(super) fn changed(
    wrong: Wrong,
    process: ProcessId,
    words: &[Vec<u8>],
    script: &str,
    now: i64,
) -> Option<(Vec<Vec<u8>>, i64)> {
    match (wrong, script) {
        (Wrong::RenewsWithoutRoom, "renew") => Some((without_limits(words), now)),
        (Wrong::PermitsByClientClocks, "enter") => {
            let expiry = words.get(first_argument(words)).and_then(|word| number(word))?;
            let ahead = [0, expiry * 4 / 3, -expiry * 4 / 3];
            let ahead = ahead.get(process.0 as usize % ahead.len()).copied().unwrap_or(0);
            Some((words.to_vec(), now + ahead))
        }
        _ => None,
    }
}

/// Lets each permit of a renewal have a limit that is never reached: behind the expiry there are, for each key, the number of
/// its permits, their ids, and their limits.
fn without_limits(words: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (mut words, mut place) = (words.to_vec(), first_argument(words) + 1);
    while let Some(permits) = words.get(place).and_then(|word| number(word)) {
        let permits = usize::try_from(permits).unwrap_or(0);
        let limits = place + permits + 1;
        for word in words.iter_mut().skip(limits).take(permits) {
            *word = b"1000000".to_vec();
        }
        place = limits + permits;
    }
    words
}
