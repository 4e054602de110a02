//! The limiter of a rule that waits, which notes who waits.

use std::{any::Any, collections::BTreeMap, fmt, sync::Arc, sync::Mutex, time::Duration};

use limiter_core::{
    Cost, Decision, Demand, Error, JointDecision, Key, Limiter, LimiterFuture, LimiterId, Policy,
    Receipt, Reservation, Store, Usage, WaitingLimiter,
};
use limiter_redis::RedisLimiter;

use super::client::{Ticket, current};
use crate::{
    network::{Network, SimClient},
    service_plan::Waiting,
    sync::lock,
    vocabulary::{Micros, ProcessId, Subject, subject},
};

/// A limiter that notes which requests wait for its permits, and is otherwise the one in it.
#[derive(Clone)]
pub(super) struct Noted {
    pub(super) inner: RedisLimiter<SimClient>,
    pub(super) notes: Notes,
}

/// What is noted of the requests of a process that wait.
#[derive(Clone)]
pub(super) struct Notes {
    pub(super) process: ProcessId,
    pub(super) network: Network,
    pub(super) bounds: Waiting,
    /// How long a call takes at most.
    pub(super) deadline: Micros,
    /// How many wait for each key.
    waiters: Arc<Mutex<BTreeMap<Vec<u8>, usize>>>,
}

/// A request that waits, until it has an answer or is dropped.
struct Waits {
    notes: Notes,
    key: Vec<u8>,
    ticket: Option<Arc<Ticket>>,
    since: Micros,
}

impl Notes {
    pub(super) fn new(
        process: ProcessId,
        network: &Network,
        bounds: Waiting,
        deadline: Micros,
    ) -> Self {
        Self { process, network: network.clone(), bounds, deadline, waiters: Arc::default() }
    }

    /// Notes that the request that is polled begins to wait.
    fn begins(&self, key: &Key<'_>) -> Waits {
        let ticket = current();
        ticket.iter().for_each(|ticket| ticket.begins_to_wait());
        let mut encoded = Vec::new();
        key.encode(&mut encoded);
        let number = {
            let mut waiters = lock(&self.waiters);
            let number = waiters.entry(encoded.clone()).or_default();
            *number += 1;
            *number
        };
        let (rule, most) = (subject(self.bounds.rule, 0), self.bounds.queue);
        let since = self.network.with_records(|records, moment| {
            records.service(moment, |auditor| auditor.waits(rule, number, most));
            moment.now
        });
        Waits { notes: self.clone(), key: encoded, ticket, since }
    }
}

impl Waits {
    /// Notes that the request has an answer.
    fn ends(self) {
        self.ticket.iter().for_each(|ticket| ticket.ends_to_wait());
        let Notes { process, bounds, deadline, network, .. } = &self.notes;
        // Clocks of processes run a little slower.
        let most = bounds.within + bounds.within / 1_000 + deadline;
        let rule: Subject = subject(bounds.rule, 0);
        network.with_records(|records, moment| {
            records.service(moment, |auditor| {
                auditor.has_waited(rule, *process, (self.since, moment.now), most);
            });
        });
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        if let Some(number) = lock(&self.notes.waiters).get_mut(&self.key) {
            *number -= 1;
        }
    }
}

impl WaitingLimiter for Noted {
    fn acquire(
        &self,
        key: &Key<'_>,
        cost: Cost,
        within: Option<Duration>,
    ) -> LimiterFuture<Reservation> {
        let waits = self.notes.begins(key);
        let acquired = WaitingLimiter::acquire(&self.inner, key, cost, within);
        LimiterFuture::pending(async move {
            let acquired = acquired.await;
            waits.ends();
            acquired
        })
    }

    fn waiting_with_policy(&self, policy: &Policy) -> Result<Arc<dyn WaitingLimiter>, Error> {
        let inner = self.inner.with_policy(policy)?;
        Ok(Arc::new(Self { inner, notes: self.notes.clone() }))
    }
}

/// All operations but those of waiters are the limiter's own.
impl Limiter for Noted {
    fn policy(&self) -> &Policy {
        Limiter::policy(&self.inner)
    }

    fn store(&self) -> &'static str {
        Limiter::store(&self.inner)
    }

    fn check(&self, key: &Key<'_>) -> LimiterFuture<Decision> {
        Limiter::check(&self.inner, key)
    }

    fn check_n(&self, key: &Key<'_>, cost: Cost) -> LimiterFuture<Decision> {
        Limiter::check_n(&self.inner, key, cost)
    }

    fn peek(&self, key: &Key<'_>) -> LimiterFuture<Usage> {
        Limiter::peek(&self.inner, key)
    }

    fn reserve(&self, key: &Key<'_>, cost: Cost, within: Duration) -> LimiterFuture<Reservation> {
        Limiter::reserve(&self.inner, key, cost, within)
    }

    fn take_up_to(&self, key: &Key<'_>, most: Cost) -> LimiterFuture<Reservation> {
        Limiter::take_up_to(&self.inner, key, most)
    }

    fn charge(&self, key: &Key<'_>, cost: Cost) -> LimiterFuture<Reservation> {
        Limiter::charge(&self.inner, key, cost)
    }

    fn refund(&self, receipt: Receipt) -> LimiterFuture<u64> {
        Limiter::refund(&self.inner, receipt)
    }

    fn reset(&self, key: &Key<'_>) -> LimiterFuture<()> {
        Limiter::reset(&self.inner, key)
    }

    fn with_policy(&self, policy: &Policy) -> Result<Arc<dyn Limiter>, Error> {
        Limiter::with_policy(&self.inner, policy)
    }

    fn sibling(&self, policy: &Policy) -> Result<Arc<dyn Limiter>, Error> {
        Limiter::sibling(&self.inner, policy)
    }
}

impl Store for Noted {
    fn id(&self) -> LimiterId {
        Store::id(&self.inner)
    }

    fn as_any(&self) -> &dyn Any {
        Store::as_any(&self.inner)
    }

    fn shard(&self, key: &Key<'_>) -> u64 {
        Store::shard(&self.inner, key)
    }

    fn preview(&self, key: &Key<'_>, cost: Cost) -> Option<Decision> {
        Store::preview(&self.inner, key, cost)
    }

    fn decide_together(
        &self,
        demands: &[Demand<'_>],
        is_part: bool,
    ) -> Option<LimiterFuture<JointDecision>> {
        Store::decide_together(&self.inner, demands, is_part)
    }
}

impl fmt::Debug for Noted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Noted").field("inner", &self.inner).finish_non_exhaustive()
    }
}
