//! The callers of a process: what they ask of its limiters, and what they see.

mod member;
mod operations;

use limiter_core::Receipt;

pub(crate) use self::member::Member;
use crate::{auditor::AdmissionId, fault::Fault, random::Random};

/// A caller, which makes one operation after the other.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) member: std::sync::Arc<Member>,
    pub(crate) random: Random,
    /// The receipts of what it may refund.
    pub(crate) receipts: Vec<Kept>,
}

/// A receipt, and the admission as the auditor knows it.
#[derive(Debug)]
pub(crate) struct Kept {
    limiter: usize,
    key: usize,
    receipt: Receipt,
    admission: Option<AdmissionId>,
}

/// The most receipts that a caller keeps.
const MAX_RECEIPTS: usize = 8;

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

    /// Keeps a receipt, in the place of another one if there are many.
    fn keep(&mut self, kept: Kept) {
        if self.receipts.len() < MAX_RECEIPTS {
            self.receipts.push(kept);
        } else if let Some(place) = self.receipts.get_mut(0) {
            *place = kept;
        }
    }

    /// Takes one of the receipts.
    fn take(&mut self) -> Option<Kept> {
        let index = self.random.below(self.receipts.len() as u64);
        let index = usize::try_from(index).ok().filter(|index| *index < self.receipts.len())?;
        Some(self.receipts.swap_remove(index))
    }
}
