//! Refusals that are remembered, so that a key that has to wait is not asked for again meanwhile.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    sync::PoisonError,
    time::{Duration, Instant},
};

use limiter_core::{Cost, Decision, Source};

use super::sync::{AtomicU64, Ordering, RwLock};

/// A bounded number of refusals, each until the moment from which the store might admit.
///
/// A refusal tells exactly how long to wait. Until then the same cost, or a larger one, can't be
/// admitted, whatever others take; only what is given back, a reset or another policy changes that.
/// When this process does so, it says so by [`Denials::forget`]. When another process does so, it
/// shows after [`Denials::MAX_AGE`] at the latest.
///
/// The table is cut into lines, each under its own lock, and a key belongs to one line. Where a
/// line is full, the refusal that is over first makes room. The keys are kept whole and compared
/// whole, so that none is refused in place of another.
pub(crate) struct Denials {
    lines: Box<[Line]>,
    /// The most refusals in a line.
    slots: usize,
    seed: RandomState,
    start: Instant,
    /// When the last of all refusals is over, in nanoseconds since the start: after that, nothing
    /// has to be searched for.
    latest: AtomicU64,
}

/// What is noted of a key before the store is asked, so that a refusal is not remembered when the
/// key was given something back meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    hash: u64,
    generation: u64,
}

/// What to remember: a refusal of `cost` for `key` by the tier of that index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Denial<'a> {
    /// As the store has it.
    pub(crate) key: &'a [u8],
    pub(crate) tier: usize,
    pub(crate) cost: Cost,
    pub(crate) decision: Decision,
    /// When the store was asked, or before.
    pub(crate) sent: Instant,
    /// When it had answered.
    pub(crate) heard: Instant,
}

struct Line {
    refusals: RwLock<Vec<Refusal>>,
    /// How often something of these keys was forgotten.
    generation: AtomicU64,
}

struct Refusal {
    hash: u64,
    tier: usize,
    cost: Cost,
    /// Counted from when the store was asked, which was before it decided, so that this is never
    /// later than the truth; and soon enough to notice what other processes do.
    until: Instant,
    /// What others are told is counted from here, so that no one is told to come back too early:
    /// it is the moment that the first to be refused was told.
    heard: Instant,
    decision: Decision,
    key: Box<[u8]>,
}

impl Denials {
    /// How many refusals are remembered unless it is said otherwise.
    pub(crate) const DEFAULT_CAPACITY: usize = 10_000;

    /// The most refusals that there can be room for.
    pub(crate) const MAX_CAPACITY: usize = 1 << 24;

    /// How long a refusal is remembered at most. It bounds how long a reset by another process
    /// goes unnoticed, and costs a key that waits for longer one call a second.
    pub(crate) const MAX_AGE: Duration = Duration::from_secs(1);

    /// Longer keys are not remembered, so that memory is bounded. The store's keys are shorter.
    const MAX_KEY: usize = 512;

    /// Few enough to look at all of them.
    const SLOTS: usize = 8;

    /// Returns room for `capacity` refusals, or [`Denials::MAX_CAPACITY`], taken as it is needed;
    /// for zero, nothing is ever remembered.
    pub(crate) fn new(capacity: usize, now: Instant) -> Self {
        let capacity = capacity.min(Self::MAX_CAPACITY);
        let lines = capacity.div_ceil(Self::SLOTS);
        Self {
            lines: (0..lines).map(|_| Line::new()).collect(),
            slots: capacity.checked_div(lines).unwrap_or(0),
            seed: RandomState::new(),
            start: now,
            latest: AtomicU64::new(0),
        }
    }

    /// Returns the refusal of `cost` if one is remembered that still holds, as it is now.
    ///
    /// Its wait is as long as the store said, less the time since. For a larger cost than the one
    /// that was refused, it is a lower bound, and there is none if the cost can never fit. The
    /// remaining permits are those of the refusal: there may be more by now, but fewer than the
    /// cost.
    #[inline]
    pub(crate) fn find(
        &self,
        key: &[u8],
        tier: usize,
        cost: Cost,
        now: Instant,
    ) -> Option<Decision> {
        if self.since_start(now) >= self.latest.load(Ordering::Relaxed) {
            return None;
        }
        let hash = self.hash(key);
        let refusals = self.line(hash)?.refusals.read().unwrap_or_else(PoisonError::into_inner);
        let holding = refusals.iter().filter(|refusal| {
            refusal.is_of(hash, key, tier) && refusal.cost <= cost && now < refusal.until
        });
        Some(holding.max_by_key(|refusal| refusal.wait(now))?.decision(cost, now))
    }

    /// Returns what [`Denials::remember`] needs, to be called before the store is asked.
    #[inline]
    pub(crate) fn ticket(&self, key: &[u8]) -> Ticket {
        let hash = self.hash(key);
        // Acquires: the store is asked after this.
        let generation = self.line(hash).map(|line| line.generation.load(Ordering::Acquire));
        Ticket { hash, generation: generation.unwrap_or(0) }
    }

    /// Remembers a refusal, unless its key was forgotten since the ticket. Does nothing for an
    /// admission, nor for a cost that can never fit: what there is no wait for has no end.
    pub(crate) fn remember(&self, ticket: Ticket, denial: &Denial<'_>) {
        if let Some(refusal) = Refusal::new(ticket.hash, denial)
            && let Some(line) = self.line(ticket.hash)
            && denial.key.len() <= Self::MAX_KEY
        {
            let latest = self.since_start(refusal.until);
            let mut refusals = line.refusals.write().unwrap_or_else(PoisonError::into_inner);
            if line.generation.load(Ordering::Relaxed) == ticket.generation {
                insert(&mut refusals, refusal, self.slots, denial.heard);
                self.latest.fetch_max(latest, Ordering::Relaxed);
            }
        }
    }

    /// Forgets what is remembered of `key` by any tier, and what was asked for and not yet
    /// answered.
    ///
    /// To be called once after each refund or reset has ended, however it ended (with an answer, an
    /// error or not at all, if its future was dropped), and before its caller is told. A refusal
    /// that the store gave before the refund is then gone, or comes with a ticket from before and
    /// is not remembered; to forget at the start of the refund as well adds nothing. One case is
    /// left: a refund that was given up and reaches the store later; its key waits for
    /// [`Denials::MAX_AGE`] longer at most.
    pub(crate) fn forget(&self, key: &[u8]) {
        let hash = self.hash(key);
        if let Some(line) = self.line(hash) {
            line.forget(|refusal| refusal.hash == hash && *refusal.key == *key);
        }
    }

    /// Forgets all keys, as [`Denials::forget`] does one: after the policy was replaced.
    pub(crate) fn forget_all(&self) {
        self.lines.iter().for_each(|line| line.forget(|_| true));
    }

    fn hash(&self, key: &[u8]) -> u64 {
        self.seed.hash_one(key)
    }

    fn line(&self, hash: u64) -> Option<&Line> {
        // The high bits choose the line: a multiplication maps them onto any number of lines.
        let index = (u128::from(hash) * self.lines.len() as u128) >> 64;
        self.lines.get(usize::try_from(index).ok()?)
    }

    /// Saturates after 584 years.
    fn since_start(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.start).as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Puts a refusal in the place of the same one from earlier, of one that is over, in a free place,
/// or in that of the one that is over next.
fn insert(refusals: &mut Vec<Refusal>, new: Refusal, slots: usize, now: Instant) {
    let next = (0..).zip(&*refusals).min_by_key(|(_, old)| old.until);
    let over = next.is_some_and(|(_, old)| old.until <= now) || refusals.len() >= slots;
    let next = next.map(|(index, _)| index).filter(|_| over);
    let same = refusals
        .iter()
        .position(|old| old.is_of(new.hash, &new.key, new.tier) && old.cost == new.cost);
    match same.or(next).and_then(|index| refusals.get_mut(index)) {
        // Both hold, so the longer one does.
        Some(old) if same.is_some() && new.until <= old.until => {}
        Some(old) => *old = new,
        None => refusals.push(new),
    }
}

impl Line {
    fn new() -> Self {
        Self { refusals: RwLock::new(Vec::new()), generation: AtomicU64::new(0) }
    }

    fn forget(&self, which: impl Fn(&Refusal) -> bool) {
        let mut refusals = self.refusals.write().unwrap_or_else(PoisonError::into_inner);
        self.generation.fetch_add(1, Ordering::Release);
        refusals.retain(|refusal| !which(refusal));
    }
}

impl Refusal {
    /// Returns nothing where there is nothing to wait for.
    fn new(hash: u64, denial: &Denial<'_>) -> Option<Self> {
        let Denial { key, tier, cost, decision, sent, heard } = *denial;
        let retry_after = decision.retry_after().filter(|_| !decision.is_admitted())?;
        Some(Self {
            hash,
            tier,
            cost,
            until: sent.checked_add(retry_after.min(Denials::MAX_AGE))?,
            heard,
            decision,
            key: key.into(),
        })
    }

    fn is_of(&self, hash: u64, key: &[u8], tier: usize) -> bool {
        self.hash == hash && self.tier == tier && *self.key == *key
    }

    /// Returns the decision for `cost`, at least the one that was refused.
    fn decision(&self, cost: Cost, now: Instant) -> Decision {
        let usage = self.decision.usage();
        let usage = usage.with_reset_after(self.left_of(usage.reset_after(), now));
        let fits = cost.get() <= usage.limit();
        let retry_after = fits.then(|| self.wait(now));
        Decision::refused(usage, retry_after).with_source(Source::Remembered)
    }

    fn wait(&self, now: Instant) -> Duration {
        self.left_of(self.decision.retry_after().unwrap_or_default(), now)
    }

    /// Rounds up to the tick of the store's clock.
    fn left_of(&self, time: Duration, now: Instant) -> Duration {
        let left = time.saturating_sub(now.saturating_duration_since(self.heard));
        let nanos = left.subsec_nanos();
        let short = nanos.next_multiple_of(1_000) - nanos;
        left.saturating_add(Duration::from_nanos(short.into()))
    }
}

impl fmt::Debug for Denials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let capacity = self.lines.len() * self.slots;
        f.debug_struct("Denials").field("capacity", &capacity).finish_non_exhaustive()
    }
}
