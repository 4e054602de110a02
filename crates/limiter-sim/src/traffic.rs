//! The callers of a process: what they ask of its limiters, and what they see.

mod caller;
mod lists;
mod member;
mod operations;
mod refunds;

pub(crate) use self::{caller::Caller, member::Member};
use crate::fault::Fault;

impl Caller {
    /// Asks until the traffic is over.
    pub(crate) async fn run(mut self) {
        while !self.member.is_over() {
            let quiet = self.member.fleet.quiet_for(self.member.now());
            let pause = self.random.below(self.member.fleet.longest_pause);
            self.member.sleep(quiet + pause).await;
            let limiter = self.member.pick_limiter(&mut self.random);
            // Leases are for keys that are checked often.
            let number = match self.member.leases(limiter) {
                true => self.random.between(1, 16),
                false => 1,
            };
            for _ in 0..number {
                self.ask(limiter).await;
            }
            self.refund_late().await;
        }
    }

    /// Makes one operation.
    async fn ask(&mut self, limiter: usize) {
        let key = self.member.pick_key(&mut self.random);
        match self.random.below(1_000) {
            0..700 => self.check(limiter, key).await,
            700..780 => self.reserve(limiter, key).await,
            780..830 => self.take_up_to(limiter, key).await,
            830..870 => self.acquire(limiter, key).await,
            870..900 => self.peek(limiter, key).await,
            900..902 => self.reset(limiter, key).await,
            902..940 => self.decide(key).await,
            _ => self.refund().await,
        }
    }

    /// Refunds a receipt after a long time.
    async fn refund_late(&mut self) {
        let is_late = !self.receipts.is_empty() && self.member.happens(Fault::LateRefund);
        if is_late {
            let time = self.random.below(2_000_000);
            self.member.sleep(time).await;
            self.refund().await;
        }
    }
}
