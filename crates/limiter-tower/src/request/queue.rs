//! The queue of the rule that waits.

use std::time::Instant;

use super::decide::{Ask, BLOCK_DEMANDS, Question, blocked_for, refund};

impl Question<'_> {
    /// Joins the queue of a rule that waits if it alone has refused, and asks the others once it has admitted the
    /// request. Nothing else is charged meanwhile.
    pub(super) async fn queue(&mut self) {
        let mut refusing = self.asks.iter().enumerate().filter(|(_, ask)| ask.is_refused());
        let (Some((place, ask)), None) = (refusing.next(), refusing.next()) else { return };
        let Some(wait) = &ask.rule.settings.wait else { return };
        let Some(Ok(decision)) = &ask.answer else { return };
        let due = decision.retry_after().filter(|due| !ask.is_blocked && *due <= wait.within());
        let Some(due) = due else { return };
        self.ask_others().await;
        if self.asks.iter().filter(|ask| ask.is_refused()).count() > 1 {
            return;
        }
        let Some(ask) = self.asks.get(place) else { return };
        let Some(limiter) = ask.plan.waiting_limiter() else { return };
        let Some(guard) = wait.enter(ask.rule.name(), &ask.key, due) else { return };
        let acquired = limiter.acquire(&ask.key, ask.cost, Some(wait.within()));
        // If a store has failed, the others were asked alone, and may have charged.
        refund(&mut self.asks);
        let since = Instant::now();
        let reserved = acquired.await;
        guard.leave();
        let Some(ask) = self.asks.get_mut(place) else { return };
        ask.waited = Some(since.elapsed());
        match reserved {
            Ok(reserved) => {
                ask.answer = Some(Ok(reserved.decision()));
                ask.receipt = reserved.into_receipt();
            }
            Err(error) => ask.answer = Some(Err(error)),
        }
        self.ask_block(place).await;
        if self.asks.get(place).is_some_and(|ask| !ask.is_refused()) {
            let has = |ask: &Ask<'_>| !ask.is_shadow && ask.waited.is_none();
            self.asks.iter_mut().filter(|ask| has(ask)).for_each(|ask| ask.answer = None);
            let joint = self.ask(has).await;
            self.store(joint, has).await;
        }
    }

    /// Asks the rules that were not asked, because a rule in another store had refused, and charges nothing. Stores the
    /// answers if one of them refuses, too. An error acts when they are asked after the wait.
    async fn ask_others(&mut self) {
        let has = |ask: &Ask<'_>| !ask.is_shadow && ask.answer.is_none();
        if self.asks.iter().any(has)
            && let Ok(joint) = self.ask_by(has, Ask::question).await
            && !joint.is_admitted()
        {
            self.record(joint, has);
        }
    }

    /// Asks whether the key of a rule has been blocked while the request waited, or was before: a cached denial by the
    /// limit answers without a question to the block.
    async fn ask_block(&mut self, place: usize) {
        let Some(ask) = self.asks.get_mut(place).filter(|ask| !ask.is_refused()) else { return };
        let Some(block) = &ask.rule.settings.block else { return };
        let decided = limiter_core::decide(&block.blocks.demands(&ask.key));
        match decided.await {
            Ok(joint) => {
                if let Some(wait) = blocked_for(&joint, 0..BLOCK_DEMANDS) {
                    ask.set_blocked(wait);
                }
            }
            Err(error) => ask.answer = Some(Err(error)),
        }
    }
}
