//! Calls about requests in flight, as the auditor sees them.

use limiter_twins::Reply;

use super::{Call, Network};
use crate::{
    auditor::InFlightCall,
    server::{Executed, keys},
    vocabulary::Micros,
};

impl Network {
    /// Notes a call about requests in flight that was executed.
    pub(super) fn notes_in_flight(&self, call: &Call, executed: &Executed) {
        if !matches!(executed.script, "enter" | "renew" | "leave") {
            return;
        }
        let numbers: Option<Vec<i64>> = match &executed.reply {
            Reply::Array(replies) => {
                let number = |reply: &Reply| match reply {
                    Reply::Integer(number) => Some(*number),
                    _ => None,
                };
                replies.iter().map(number).collect()
            }
            _ => None,
        };
        let keys = keys(&call.words);
        let noted = InFlightCall {
            process: call.process,
            sent: call.sent,
            script: executed.script,
            keys: &keys,
            arguments: call.words.get(3 + keys.len()..).unwrap_or_default(),
            numbers: numbers.as_deref(),
            unexpired: executed.unexpired,
        };
        self.with_records(|records, moment| {
            let (number, keys) = (call.number, &executed.keys);
            records.in_flight_executed(moment, number, executed.script, &noted, keys);
        });
    }

    /// Checks how many requests are in flight as soon as all tasks have run that are ready.
    pub(crate) fn checks_in_flight(&self) {
        let network = self.clone();
        self.0.executor.after(0, move || {
            network.with_records(|records, moment| records.check_in_flight(moment));
        });
    }
}

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
