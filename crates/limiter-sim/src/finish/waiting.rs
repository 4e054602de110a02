//! Whether a request that waits alone is admitted.

use std::sync::{Arc, Mutex};

use crate::{
    service_plan::Waiting,
    sync::lock,
    vocabulary::{KEYS, SETTLES_IN, subject},
    world::World,
};

/// How many requests a client makes at most until one waits.
const UNTIL_WAITING: u64 = 200;

/// What became of requests that one client made one after the other.
#[derive(Debug, Default)]
struct Seen {
    /// Whether one has waited, and whether it was admitted.
    waited: Option<bool>,
    has_ended: bool,
}

impl World {
    /// Lets one client make requests until one of them waits, which has to be admitted: nobody else asks, so the other
    /// rules admit it after the wait as they did before.
    pub(super) fn wait_once(&mut self, waiting: &Waiting) {
        self.reset_all();
        self.run_for(SETTLES_IN);
        let seen = Arc::new(Mutex::new(Seen::default()));
        for clients in self.clients().into_iter().take(1) {
            let seen = Arc::clone(&seen);
            self.executor.spawn(clients.member.process, async move {
                for number in 0..UNTIL_WAITING {
                    // Rules with keys of clients are used up by both keys in turn, unless they are to wait.
                    let key = if number % 2 == 0 { 0 } else { KEYS.len() - 1 };
                    let client = clients.client((key, key), 1, false, 0);
                    let ticket = Arc::clone(&client.ticket);
                    clients.request(client, None).await;
                    if ticket.has_waited() {
                        lock(&seen).waited = Some(ticket.was_admitted());
                    }
                    if ticket.has_waited() || !ticket.was_admitted() {
                        break;
                    }
                }
                lock(&seen).has_ended = true;
            });
        }
        self.run_for(SETTLES_IN);
        let Seen { waited, has_ended } = *lock(&seen);
        let rule = subject(waiting.rule, 0);
        if !has_ended {
            self.violated(rule, "a request of a client without others has no answer");
        }
        if waited == Some(false) {
            self.violated(rule, "a request that waited without others was refused");
        }
    }
}
