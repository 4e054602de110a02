//! Requests whose work is charged afterwards.

use limiter_core::{Cost, Key, WaitingLimiter};

use super::{caller::Caller, member::Target};

/// The most permits of work.
const MOST: u64 = 20;

impl Caller {
    /// Checks one permit, works, and charges the others.
    pub(super) async fn charge(&mut self, target: Target) {
        let check = |it: &dyn WaitingLimiter, key: &Key<'_>| it.check(key);
        let checked = self.ask_one(target, ("check", 1), check).await;
        let Some((began, decision)) = checked else { return };
        self.note_check(&began, decision, 1);
        if !decision.is_admitted() {
            return;
        }
        let work = self.random.below(30_000);
        self.member.sleep(work).await;
        let cost = Cost::new(self.random.between(1, MOST)).unwrap_or(Cost::ONE);
        let charge = move |it: &dyn WaitingLimiter, key: &Key<'_>| it.charge(key, cost);
        let asked = self.ask_one(target, ("charge", cost.get()), charge).await;
        self.note_reservation(target, asked, Some(began.asked));
    }
}
