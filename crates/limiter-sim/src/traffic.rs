//! The callers of a process: what they ask of its limiters, and what they see.

mod caller;
mod charges;
mod holders;
mod lists;
mod member;
mod operations;
mod refunds;

pub(crate) use self::{
    caller::Caller,
    holders::{AtWork, Holder, enter},
    member::{Member, Target},
};
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
        let target = self.member.pick(limiter, &mut self.random);
        match self.random.below(1_000) {
            0..670 => self.check(target).await,
            670..740 => self.reserve(target).await,
            740..790 => self.take_up_to(target).await,
            790..830 => self.acquire(target).await,
            830..860 => self.peek(target).await,
            860..900 if self.member.fleet.charges => self.charge(target).await,
            860..900 => self.check(target).await,
            900..902 => self.reset(target).await,
            902..940 => self.decide(target).await,
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
