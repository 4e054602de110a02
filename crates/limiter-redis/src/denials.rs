//! Cached denials: a key that must wait is refused without asking the store.

use std::{hash::BuildHasher, sync::PoisonError, time::Duration};

use bytes::Bytes;
use foldhash::quality::SeedableRandomState;
use limiter_core::{Cost, Decision, Policy, Source, Timestamp, Usage};

use super::sync::{AtomicU64, Ordering, RwLock};

/// A bounded number of denials, each until the store might admit the same cost.
///
/// A denial's wait is exact: until then the same cost, or a larger one, can't be admitted under the
/// same policy, whatever other callers charge. Only a refund, a reset or a charge under another policy
/// changes that. After one by this process, [`Denials::forget`] removes the key's denials. After one
/// by another process, a denial ends with [`Denials::MAX_AGE`].
///
/// After a smaller cost was charged, the wait of a larger one is longer than its denial says. So
/// [`Denials::charged`] removes it, and the store names the new one.
///
/// The table is divided into lines with a lock each, and a key belongs to one line. In a full line,
/// the denial that ends first is replaced. Keys and policies are compared whole, so that no key is
/// refused in place of another.
pub(crate) struct Denials {
    lines: Box<[Line]>,
    /// The most denials in a line.
    slots: usize,
    seed: SeedableRandomState,
    /// When the last denial ends, in nanoseconds of the clock. After that there is nothing to search for.
    latest: AtomicU64,
}

/// The state of a key's line before the store is called, so that a denial from before a refund is not
/// cached after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    hash: u64,
    generation: u64,
}

/// A decision of the store for a cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Denial {
    pub(crate) cost: Cost,
    pub(crate) decision: Decision,
    /// When the request was sent, or before.
    pub(crate) sent: Timestamp,
    /// When the reply had arrived. The wait in cached denials counts from here, so that no caller
    /// returns too early.
    pub(crate) received: Timestamp,
}

#[derive(Default)]
struct Line {
    refusals: RwLock<Vec<Refusal>>,
    /// How many times denials of this line were removed by [`Denials::forget`].
    generation: AtomicU64,
}

struct Refusal {
    hash: u64,
    key: Bytes,
    policy: Policy,
    /// Counts from the time the request was sent, which was before the store decided.
    until: Timestamp,
    denial: Denial,
}

impl Denials {
    /// The largest number of denials.
    pub(crate) const MAX_CAPACITY: usize = 1 << 24;

    /// The longest time that a denial is cached. It bounds how long a reset by another process goes
    /// unnoticed, and costs a key with a longer wait one call a second.
    pub(crate) const MAX_AGE: Duration = Duration::from_secs(1);

    /// Longer keys are not cached, so that memory is bounded. The store's keys are shorter.
    const MAX_KEY: usize = 512;

    /// How many denials a line has. All are compared. With half of them, an idle limiter takes
    /// 30 KiB more.
    const SLOTS: usize = 16;

    /// Returns a cache of up to `capacity` denials, at most [`Denials::MAX_CAPACITY`], allocated as it is
    /// needed. With a capacity of zero, nothing is cached.
    pub(crate) fn new(capacity: usize, seed: SeedableRandomState) -> Self {
        let capacity = capacity.min(Self::MAX_CAPACITY);
        let lines = capacity.div_ceil(Self::SLOTS);
        Self {
            lines: (0..lines).map(|_| Line::default()).collect(),
            slots: capacity.checked_div(lines).unwrap_or(0),
            seed,
            latest: AtomicU64::new(0),
        }
    }

    /// Returns the cached denial of `cost` if it still holds.
    ///
    /// Its wait is the store's, less the time since. After a newer denial of a smaller cost, it is at least what `wait_after`
    /// returns for the usage at that time; without either, the store has to be asked. It is `None` if the cost can never
    /// fit. The remaining permits are those at the time of the denial: there may be more by now, but fewer than the cost.
    #[inline]
    pub(crate) fn find(
        &self,
        key: &[u8],
        policy: &Policy,
        cost: Cost,
        now: Timestamp,
        wait_after: impl FnOnce(&Usage) -> Option<Duration>,
    ) -> Option<Decision> {
        if now.as_nanos() >= self.latest.load(Ordering::Relaxed) {
            return None;
        }
        let hash = self.hash(key);
        let refusals = self.line(hash)?.refusals.read().unwrap_or_else(PoisonError::into_inner);
        let holding = refusals.iter().filter(|refusal| {
            refusal.is_of(hash, key, policy) && refusal.denial.cost <= cost && now < refusal.until
        });
        let (mut newest, mut own) = (None::<Denial>, None::<Denial>);
        for Refusal { denial, .. } in holding {
            newest = newest.filter(|newest| newest.received >= denial.received).or(Some(*denial));
            own = own.or_else(|| (denial.cost == cost).then_some(*denial));
        }
        let decision = newest?.decision(cost, now);
        let usage = decision.usage();
        let waits = [own.and_then(|own| own.wait(now)), wait_after(&usage)];
        match decision.retry_after() {
            // It can never fit.
            None => Some(decision),
            Some(_) if newest?.cost == cost => Some(decision),
            Some(_) => {
                let longest = waits.into_iter().flatten().max()?;
                Some(Decision::refused(usage, Some(longest)).with_source(Source::Cache))
            }
        }
    }

    /// Returns the ticket for [`Denials::insert`]. Call it before the store is called.
    #[inline]
    pub(crate) fn ticket(&self, key: &[u8]) -> Ticket {
        let hash = self.hash(key);
        // Acquire, because the store is called after this.
        let generation = self.line(hash).map(|line| line.generation.load(Ordering::Acquire));
        Ticket { hash, generation: generation.unwrap_or(0) }
    }

    /// Caches a denial for `max_age` at most, unless its key was forgotten since the ticket. Does nothing for an admission.
    pub(crate) fn insert(
        &self,
        max_age: Duration,
        ticket: Ticket,
        (key, policy): (&Bytes, &Policy),
        denial: Denial,
    ) {
        let hash = ticket.hash;
        if let Some(until) = denial.until(max_age)
            && let Some(line) = self.line(hash)
            && key.len() <= Self::MAX_KEY
        {
            let (key, policy) = (key.clone(), policy.clone());
            let refusal = Refusal { hash, key, policy, until, denial };
            let mut refusals = line.refusals.write().unwrap_or_else(PoisonError::into_inner);
            if line.generation.load(Ordering::Relaxed) == ticket.generation {
                replace(&mut refusals, refusal, self.slots);
                self.latest.fetch_max(until.as_nanos(), Ordering::Relaxed);
            }
        }
    }

    /// Removes the denials of a key that was charged, except those that never end.
    pub(crate) fn charged(&self, ticket: Ticket, key: &[u8], now: Timestamp) {
        let hash = ticket.hash;
        let Some(line) = self.line(hash) else { return };
        let is_longer = |refusal: &Refusal| {
            refusal.denial.decision.retry_after().is_some() && refusal.is_of_key(hash, key)
        };
        let is_none = |refusals: &[Refusal]| !refusals.iter().any(is_longer);
        if now.as_nanos() >= self.latest.load(Ordering::Relaxed)
            || is_none(&line.refusals.read().unwrap_or_else(PoisonError::into_inner))
        {
            return;
        }
        let mut refusals = line.refusals.write().unwrap_or_else(PoisonError::into_inner);
        refusals.retain(|refusal| !is_longer(refusal));
    }

    /// Removes the denials of `key` under every policy, and voids its tickets.
    ///
    /// Call it once after each refund or reset has ended, whatever its outcome, and before its caller
    /// gets the answer. A denial that the store gave before the refund is then removed, or comes with
    /// an older ticket and is not cached. One case is left: a refund that timed out may reach the store
    /// later; its key is then refused for up to [`Denials::MAX_AGE`] longer.
    pub(crate) fn forget(&self, key: &[u8]) {
        let hash = self.hash(key);
        if let Some(line) = self.line(hash) {
            let mut refusals = line.refusals.write().unwrap_or_else(PoisonError::into_inner);
            line.generation.fetch_add(1, Ordering::Release);
            refusals.retain(|refusal| !refusal.is_of_key(hash, key));
        }
    }

    fn hash(&self, key: &[u8]) -> u64 {
        self.seed.hash_one(key)
    }

    fn line(&self, hash: u64) -> Option<&Line> {
        // The high bits choose the line: a multiplication maps them onto any number of lines.
        let index = (u128::from(hash) * self.lines.len() as u128) >> 64;
        self.lines.get(usize::try_from(index).ok()?)
    }
}

/// Replaces the denial of the same cost, one that has ended, or the next to end if the line is full; else
/// adds the denial.
fn replace(refusals: &mut Vec<Refusal>, new: Refusal, slots: usize) {
    let next = (0..).zip(&*refusals).min_by_key(|(_, old)| old.until);
    let over =
        next.is_some_and(|(_, old)| old.until <= new.denial.received) || refusals.len() >= slots;
    let next = next.map(|(index, _)| index).filter(|_| over);
    let same = refusals.iter().position(|old| {
        old.is_of(new.hash, &new.key, &new.policy) && old.denial.cost == new.denial.cost
    });
    match same.or(next).and_then(|index| refusals.get_mut(index)) {
        // Both hold, so the longer one is kept.
        Some(old) if same.is_some() && new.until <= old.until => {}
        Some(old) => *old = new,
        None => refusals.push(new),
    }
}

impl Refusal {
    fn is_of(&self, hash: u64, key: &[u8], policy: &Policy) -> bool {
        self.is_of_key(hash, key) && self.policy == *policy
    }

    fn is_of_key(&self, hash: u64, key: &[u8]) -> bool {
        self.hash == hash && self.key == key
    }
}

impl Denial {
    /// Returns until when it is cached, or `None` if it is an admission.
    fn until(&self, max_age: Duration) -> Option<Timestamp> {
        // A cost that can never fit is refused for ever.
        let wait = self.decision.retry_after().unwrap_or(Duration::MAX);
        let until = self.sent.saturating_add(wait.min(max_age));
        (!self.decision.is_admitted()).then_some(until)
    }

    /// Returns the decision for `cost`, which is at least the denied one.
    fn decision(&self, cost: Cost, now: Timestamp) -> Decision {
        let usage = self.decision.usage();
        let reset_after = self.left_of(usage.reset_after(), now);
        let usage = Usage::new(usage.burst(), usage.remaining(), reset_after)
            .with_limit_index(usage.limit_index());
        let retry_after = self.wait(now).filter(|_| cost.get() <= usage.burst());
        Decision::refused(usage, retry_after).with_source(Source::Cache)
    }

    fn wait(&self, now: Timestamp) -> Option<Duration> {
        self.decision.retry_after().map(|wait| self.left_of(wait, now))
    }

    /// Returns the time left, rounded up to a tick of the store's clock.
    fn left_of(&self, time: Duration, now: Timestamp) -> Duration {
        let left = time.saturating_sub(now.saturating_since(self.received));
        let nanos = left.subsec_nanos();
        let short = nanos.next_multiple_of(1_000) - nanos;
        left.saturating_add(Duration::from_nanos(short.into()))
    }
}
