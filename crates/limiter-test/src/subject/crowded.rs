//! A limiter whose table is too small for its keys.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use limiter_core::{Cost, LimiterFuture, ManualClock, MemoryLimiter, Policy, Timestamp};

use super::{InMemory, InStore, Process, Subject};

/// Other keys of a limiter in memory, which fill its table, so that a key may find no slot.
#[derive(Debug)]
pub struct Crowd {
    /// The limiter, and before how many requests they were charged.
    charged: Mutex<(InMemory, usize)>,
    rounds: usize,
    /// By which they are charged, in turn.
    policies: Vec<Policy>,
    keys: usize,
}

/// Returns a limiter under the first of these policies, with so many slots. Before each of the first `rounds`
/// requests, other keys are charged by the policies in turn, more than there are slots.
///
/// # Panics
///
/// If there are no policies.
#[must_use]
pub fn crowded(
    slots: usize,
    policies: Vec<Policy>,
    rounds: usize,
) -> InStore<Crowd, MemoryLimiter<ManualClock>> {
    let first = policies.first().expect("there is a policy").clone();
    let subject = InMemory::with_room_for(slots, first);
    let limiter = subject.limiter.clone();
    let (charged, keys) = (Mutex::new((subject, 0)), 20 + 3 * slots);
    InStore::since(Duration::ZERO, Arc::new(Crowd { charged, rounds, policies, keys }), limiter)
}

impl Process for Crowd {
    fn tick(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn set_clock(&self, now: Timestamp) {
        let (subject, round) = &mut *self.charged.lock().unwrap_or_else(PoisonError::into_inner);
        subject.set_clock(now);
        if *round == self.rounds {
            return;
        }
        *round += 1;
        let turns = self.policies.iter().cycle().skip(*round % 3).take(self.keys);
        for (key, policy) in turns.enumerate() {
            let burst = policy.limits().iter().map(|limit| limit.quota().burst()).min();
            let cost = if key % 2 == 0 { 1 } else { burst.unwrap_or(1) };
            let _ = subject.decide_by(now, policy, &format!("other {key}"), Cost::of(cost));
        }
    }

    fn wait_for<T>(&self, future: LimiterFuture<T>) -> T {
        future.wait().expect("a limiter in memory returns no error")
    }
}
