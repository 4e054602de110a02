//! The operations of callers on one key.

use std::time::Duration;

use limiter_core::{Cost, Key, WaitingLimiter};

use super::{caller::Caller, member::Target};

impl Caller {
    pub(super) async fn check(&mut self, target: Target) {
        let cost = self.cost();
        let check = move |it: &dyn WaitingLimiter, key: &Key<'_>| it.check_n(key, cost);
        let asked = self.ask_one(target, ("check", cost.get()), check).await;
        if let Some((operation, decision)) = asked {
            self.note_check(&operation, decision, cost.get());
        }
    }

    pub(super) async fn reserve(&mut self, target: Target) {
        let (cost, within) = (self.cost(), Duration::from_micros(self.random.below(1_500_000)));
        let reserve = move |it: &dyn WaitingLimiter, key: &Key<'_>| it.reserve(key, cost, within);
        let asked = self.ask_one(target, ("reserve", cost.get()), reserve).await;
        self.note_reservation(target, asked, None);
    }

    pub(super) async fn take_up_to(&mut self, target: Target) {
        let most = if self.member.leases(target.limiter) { 100 } else { 10 };
        let most = Cost::new(self.random.between(1, most)).unwrap_or(Cost::ONE);
        let take = move |it: &dyn WaitingLimiter, key: &Key<'_>| it.take_up_to(key, most);
        let asked = self.ask_one(target, ("take up to", most.get()), take).await;
        self.note_reservation(target, asked, None);
    }

    pub(super) async fn acquire(&mut self, target: Target) {
        let (cost, within) = (self.cost(), Duration::from_micros(self.random.below(1_500_000)));
        let acquire =
            move |it: &dyn WaitingLimiter, key: &Key<'_>| it.acquire(key, cost, Some(within));
        let asked = self.ask_one(target, ("acquire", cost.get()), acquire).await;
        self.note_reservation(target, asked, None);
    }

    pub(super) async fn peek(&mut self, target: Target) {
        let peek = |it: &dyn WaitingLimiter, key: &Key<'_>| it.peek(key);
        if let Some((operation, _)) = self.ask_one(target, ("peek", 0), peek).await {
            self.answered(&operation);
        }
    }

    pub(super) async fn reset(&mut self, target: Target) {
        let reset = |it: &dyn WaitingLimiter, key: &Key<'_>| it.reset(key);
        if let Some((operation, ())) = self.ask_one(target, ("reset", 0), reset).await {
            self.answered(&operation);
        }
    }
}
