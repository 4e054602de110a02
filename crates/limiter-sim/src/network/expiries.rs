//! Expiries of permits of requests in flight, in a world that is wrong on purpose.

use crate::{server::keys, vocabulary::Micros};

/// The shortest expiry of permits, 100 ms.
const LEAST_EXPIRY: u64 = 100_000;

/// Returns a call about requests in flight with permits that last shorter at the server.
pub(super) fn shortened(words: &[Vec<u8>], by: Micros) -> Vec<Vec<u8>> {
    let mut words = words.to_vec();
    let first = 3 + keys(&words).len();
    // `renew` has the expiry first, and `enter` behind the limit. Limits and numbers of permits are lower than any expiry.
    for word in words.iter_mut().skip(first).take(2) {
        let number = str::from_utf8(word).ok().and_then(|it| it.parse::<u64>().ok());
        if let Some(expiry) = number.filter(|number| *number >= LEAST_EXPIRY) {
            *word = expiry.saturating_sub(by).max(1).to_string().into();
        }
    }
    words
}
