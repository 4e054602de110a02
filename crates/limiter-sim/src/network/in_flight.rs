//! Calls about requests in flight, as the auditor sees them.

use limiter_double::Reply;

use super::{Call, Network};
use crate::{
    auditor::InFlightCall,
    records::Records,
    server::{Executed, keys},
};

impl Network {
    /// Notes a call about requests in flight that was executed.
    pub(super) fn notes_in_flight(&self, call: &Call, executed: &Executed) {
        if !matches!(executed.script, "enter" | "renew" | "leave" | "reset") {
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
            is_error: matches!(executed.reply, Reply::Error(_)),
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
            network.with_records(Records::check_in_flight);
        });
    }
}
