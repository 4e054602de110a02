//! Decisions by this process's share, while the store can't decide.

use std::{
    num::NonZeroU32,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use limiter_core::{
    Clock, Cost, Decision, Error, Key, MemoryLimiter, Policy, Receipt, Reservation, Source, Usage,
};

use crate::scripts::Ask;

/// A limiter in memory by the clock of the process.
type InMemory = MemoryLimiter<Arc<dyn Clock>>;

/// The limiter in memory for the time without a store, under a handle's policy. Those of all handles
/// share their states.
#[derive(Debug)]
pub(crate) struct Local {
    processes: Arc<AtomicU32>,
    /// The whole policy, of which the limiter enforces the share.
    policy: Policy,
    /// The limiter, and for how many processes its share was made.
    current: RwLock<(u32, InMemory)>,
}

impl Local {
    /// Returns the share of `policy` among so many processes, by the clock of the process.
    pub(crate) fn new(
        processes: NonZeroU32,
        policy: &Policy,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let limiter = MemoryLimiter::builder(policy.share_among(processes)?);
        let limiter = limiter.clock(clock).build()?;
        let processes = processes.get();
        Ok(Self {
            processes: Arc::new(AtomicU32::new(processes)),
            policy: policy.clone(),
            current: RwLock::new((processes, limiter)),
        })
    }

    /// Returns the share under another policy.
    pub(crate) fn with_policy(&self, policy: &Policy) -> Result<Self, Error> {
        let processes = self.processes.load(Relaxed);
        let limiter = self.ask(|limiter| with_share(limiter, policy, processes))?;
        let current = RwLock::new((processes, limiter));
        Ok(Self { processes: Arc::clone(&self.processes), policy: policy.clone(), current })
    }

    pub(crate) fn set_processes(&self, processes: NonZeroU32) {
        self.processes.store(processes.get(), Relaxed);
    }

    pub(crate) fn refund(&self, receipt: Receipt) -> u64 {
        self.ask(|limiter| limiter.refund(receipt))
    }

    pub(crate) fn reset(&self, key: &[u8]) {
        self.ask(|limiter| limiter.reset(Key::from(key)));
    }

    /// Charges what the store has admitted, or as much of it as the share has left.
    pub(crate) fn follow(&self, key: &[u8], cost: Cost) -> Option<Receipt> {
        self.ask(|limiter| {
            let charge =
                |cost| limiter.reserve(Key::from(key), cost, Duration::ZERO).into_receipt();
            let rest = || Cost::new(limiter.peek(Key::from(key)).remaining()).ok();
            charge(cost).or_else(|| charge(rest()?))
        })
    }

    pub(crate) fn decide(&self, key: &[u8], cost: Cost) -> Decision {
        self.ask(|limiter| limiter.check_n(Key::from(key), cost)).with_source(Source::Local)
    }

    pub(crate) fn reserve(&self, key: &[u8], cost: Cost, ask: Ask) -> Reservation {
        let key = Key::from(key);
        let reserved = self.ask(|limiter| match ask {
            Ask::Within(within) => limiter.reserve(key, cost, within),
            Ask::UpTo => limiter.take_up_to(key, cost),
            Ask::InAnyCase => limiter.charge(key, cost),
        });
        let decision = reserved.decision().with_source(Source::Local);
        let (delay, permits) = (reserved.delay(), reserved.permits());
        match (delay, reserved.into_receipt()) {
            (Some(delay), Some(receipt)) => Reservation::admitted(decision, delay, receipt),
            (Some(_), None) => Reservation::uncounted(decision, permits),
            (None, _) => Reservation::refused(decision),
        }
    }

    pub(crate) fn peek(&self, key: &[u8]) -> Usage {
        self.ask(|limiter| limiter.peek(Key::from(key)))
    }

    /// Asks the limiter of this process's share, which is made anew if the number of processes changed.
    fn ask<T>(&self, ask: impl FnOnce(&InMemory) -> T) -> T {
        let processes = self.processes.load(Relaxed);
        {
            let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
            if current.0 == processes {
                return ask(&current.1);
            }
        }
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        // A share can always be served: the whole policy was. If not, the previous share stays.
        if let Ok(limiter) = with_share(&current.1, &self.policy, processes) {
            *current = (processes, limiter);
        }
        ask(&current.1)
    }
}

fn with_share(limiter: &InMemory, policy: &Policy, processes: u32) -> Result<InMemory, Error> {
    let processes = NonZeroU32::new(processes).unwrap_or(NonZeroU32::MIN);
    limiter.with_policy(&policy.share_among(processes)?)
}

#[cfg(test)]
mod tests {
    use limiter_core::{ManualClock, Quota};

    use super::*;

    #[test]
    fn permits_recover_by_the_clock_of_the_process() {
        let clock = ManualClock::new();
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        for policy in [
            Policy::gcra("api", Quota::per_hour(2)),
            Policy::aligned_window("api", Quota::per_hour(2)),
        ] {
            let processes = NonZeroU32::new(2).unwrap();
            let local = Local::new(processes, &policy, Arc::clone(&shared)).unwrap();
            for _ in 0..3 {
                assert!(local.decide(b"alice", Cost::ONE).is_admitted(), "{policy:?}");
                let refusal = local.decide(b"alice", Cost::ONE);
                assert_eq!(refusal.retry_after(), Some(Duration::from_secs(3_600)), "{policy:?}");
                clock.advance(Duration::from_secs(3_600));
            }
        }
    }
}
