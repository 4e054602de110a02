//! Whether a success clears the strikes of its key.

use super::STRUCK;
use crate::{
    service_plan::{Blocking, USER},
    vocabulary::{Micros, SETTLES_IN, subject},
    world::World,
};

/// How long a strike and a success take at most.
const DONE_IN: Micros = 20_000;

impl World {
    /// Lets one client strike a key until one strike is left before a block, then succeed, and strike once more. So the
    /// key is not blocked.
    pub(super) fn clear_once(&mut self, block: &Blocking) {
        let struck = subject(USER, STRUCK);
        let before = self.fresh_blocks(struck);
        let strikes = block.strikes;
        for clients in self.clients().into_iter().take(1) {
            self.executor.spawn(clients.member.process, async move {
                for number in 0..=strikes {
                    clients.ask_struck(number + 1 != strikes).await;
                    clients.member.sleep(DONE_IN).await;
                }
            });
        }
        self.run_for(SETTLES_IN);
        let blocks = self.network.with_records(|records, _| records.auditor.blocks(struck));
        if blocks != before {
            self.violated(struck, "a key is blocked by strikes that a success has cleared");
        }
    }
}
