//! Any operations on any policy, at any time: nothing panics, and decisions make sense.

#![no_main]

#[path = "operations/input.rs"]
mod input;

use std::{
    env,
    pin::Pin,
    sync::LazyLock,
    task::{Context, Poll, Waker},
    time::Duration,
};

use input::{Bytes, Operation, Who};
use libfuzzer_sys::{Corpus, fuzz_target};
use limiter_core::{
    Acquire, Clock, Cost, Decision, Kind, ManualClock, MemoryLimiter, Receipt, Reservation,
    Timestamp, Usage,
};

/// How long after its start a limiter is held to the waits that it tells: 20 years. Time stands
/// still after 27.
const EXACT: Duration = Duration::from_secs(20 * 365 * 86_400);

/// Whether to print what is done, to understand an input that fails: `LIMITER_FUZZ_TRACE=1`.
static TRACE: LazyLock<bool> = LazyLock::new(|| env::var_os("LIMITER_FUZZ_TRACE").is_some());

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let mut bytes = Bytes(bytes);
    let kinds = bytes.kinds();
    let Some(mut world) = World::new(&mut bytes, &kinds) else { return Corpus::Reject };
    while !bytes.is_empty() {
        let operation = bytes.operation(&kinds);
        if *TRACE {
            eprintln!("{operation:?}");
        }
        world.run(operation);
    }
    Corpus::Keep
});

struct World {
    clock: ManualClock,
    origin: Timestamp,
    /// The policy itself, and its tiers.
    tiers: Vec<MemoryLimiter<ManualClock>>,
    receipts: Vec<Taken>,
    waiters: Vec<(Who, Acquire<ManualClock>)>,
    replaced: u32,
    /// Whether the clock ever went back.
    went_back: bool,
    /// Whether permits were ever given out for later.
    promised: bool,
}

/// A receipt, and who got it by which policy.
struct Taken {
    receipt: Receipt,
    who: Who,
    replaced: u32,
}

impl World {
    fn new(bytes: &mut Bytes<'_>, kinds: &[Kind]) -> Option<Self> {
        let policy = bytes.policy(kinds)?;
        if *TRACE {
            eprintln!("{policy:#?}");
        }
        let clock = ManualClock::new();
        let origin = Timestamp::from_nanos(bytes.number());
        clock.set(origin);
        let capacity = usize::from(bytes.byte()) + 1;
        let limiter = MemoryLimiter::new(policy.clone()).ok()?;
        let limiter = limiter.with_capacity(capacity).expect("within bounds");
        let limiter = limiter.with_clock(clock.clone());
        let others = policy.tiers().iter().map(|tier| limiter.tier(tier.name()));
        let mut tiers: Vec<_> = others.collect::<Result<_, _>>().expect("all the tiers are there");
        tiers.insert(0, limiter);
        let (receipts, waiters) = (Vec::new(), Vec::new());
        Some(Self {
            clock,
            origin,
            tiers,
            receipts,
            waiters,
            replaced: 0,
            promised: false,
            went_back: false,
        })
    }

    fn run(&mut self, operation: Operation) {
        match operation {
            Operation::TryAcquire { who, cost } => {
                let cost = cost.get(self.peek(who).limit());
                self.try_acquire(who, cost);
            }
            Operation::Reserve { who, cost, within } => {
                let cost = cost.get(self.peek(who).limit());
                let reservation = self.of(who).reserve(who.key, cost, within);
                assert!(reservation.delay().is_none_or(|delay| delay <= within));
                self.keep(who, reservation);
            }
            Operation::Peek { who } => {
                self.peek(who);
            }
            Operation::Refund { tier, receipt, keep } => {
                self.refund(tier, receipt, keep);
            }
            Operation::Reset { who } => self.of(who).reset(who.key),
            Operation::Replace { policy } => {
                if policy.is_some_and(|policy| self.tiers[0].replace(policy).is_ok()) {
                    self.replaced += 1;
                }
            }
            Operation::Set { now } => self.set(now),
            Operation::Advance { by } => self.clock.advance(by),
            Operation::Back { by } => {
                let back = self.clock.now().saturating_since(Timestamp::ZERO.saturating_add(by));
                self.set(Timestamp::ZERO.saturating_add(back));
            }
            Operation::Acquire { who, cost, within } => {
                let cost = cost.get(self.peek(who).limit());
                let limiter = self.of(who);
                let waiter = match within {
                    Some(within) => limiter.acquire_within(who.key, cost, within),
                    None => limiter.acquire(who.key, cost),
                };
                self.waiters.push((who, waiter));
                self.poll(self.waiters.len() - 1);
            }
            Operation::Poll { waiter } => {
                if let Some(index) = waiter.checked_rem(self.waiters.len()) {
                    self.poll(index);
                }
            }
            Operation::Drop { waiter } => {
                if let Some(index) = waiter.checked_rem(self.waiters.len()) {
                    drop(self.waiters.swap_remove(index));
                }
            }
        }
    }

    fn set(&mut self, now: Timestamp) {
        self.went_back |= now < self.clock.now();
        self.clock.set(now);
    }

    fn try_acquire(&mut self, who: Who, cost: Cost) {
        let before = self.peek(who);
        let decision = self.of(who).try_acquire(who.key, cost);
        self.check(who, &decision);
        if decision.is_admitted() {
            let is_told = cost.get() <= before.remaining();
            assert!(is_told || !self.is_exact(self.clock.now()), "{cost} of {before:?}");
            return;
        }
        // One who waits and is due has its turn, whoever asks.
        if self.is_waited_for(who) {
            return;
        }
        assert_eq!(self.peek(who), before, "a refusal changes nothing");
        let Some(wait) = decision.retry_after() else { return };
        // Behind what was given out for later, even what is left has to wait.
        if !self.promised && !self.went_back {
            assert!(cost.get() > before.remaining(), "{cost} of {before:?}: {decision:?}");
        }
        let now = self.clock.now();
        let then = now.saturating_add(wait);
        if now < self.origin || !self.is_exact(then) {
            return;
        }
        self.clock.set(Timestamp::from_nanos(then.as_nanos() - 1));
        let early = self.of(who).try_acquire(who.key, cost);
        assert!(!early.is_admitted(), "admitted a nanosecond before {wait:?}");
        self.clock.set(then);
        let retry = self.of(who).try_acquire(who.key, cost);
        assert!(retry.is_admitted(), "refused after {wait:?}: {retry:?}");
    }

    fn refund(&mut self, tier: u8, index: usize, keep: u64) {
        let Some(index) = index.checked_rem(self.receipts.len()) else { return };
        let Taken { receipt, who, replaced } = self.receipts.swap_remove(index);
        let usage = self.peek(who);
        let before = usage.remaining();
        let receipt = receipt.keep(keep);
        let permits = receipt.permits();
        self.of(Who { tier, ..who }).refund(receipt);
        let after = self.peek(who).remaining();
        // Another quota counts what was taken in another measure, and sums of so many permits that
        // were promised for later are cut off.
        if replaced == self.replaced && usage.limit() < 1 << 48 {
            assert!(after <= before.saturating_add(permits), "{after} after {before}: {permits}");
        }
    }

    fn poll(&mut self, index: usize) {
        // The end of the clock is never reached, so sleep until then would never do.
        if self.clock.now() > LATEST {
            return;
        }
        let (who, waiter) = &mut self.waiters[index];
        let who = *who;
        let context = &mut Context::from_waker(Waker::noop());
        if let Poll::Ready(reservation) = Pin::new(waiter).poll(context) {
            // Permits that were given out before the clock stepped back are for later.
            assert!(self.went_back || reservation.delay().is_none_or(|delay| delay.is_zero()));
            drop(self.waiters.swap_remove(index));
            self.keep(who, reservation);
        }
    }

    fn keep(&mut self, who: Who, reservation: Reservation) {
        self.check(who, &reservation.decision());
        self.promised |= reservation.delay().is_some_and(|delay| !delay.is_zero());
        let replaced = self.replaced;
        let receipt = reservation.into_receipt();
        self.receipts.extend(receipt.map(|receipt| Taken { receipt, who, replaced }));
    }

    fn check(&self, who: Who, decision: &Decision) {
        assert!(decision.remaining() <= decision.limit(), "{decision:?}");
        // Those who wait may have to be called first, however little time that takes.
        if !decision.is_admitted() && !self.is_waited_for(who) {
            assert_ne!(decision.retry_after(), Some(Duration::ZERO), "{decision:?}");
        }
    }

    fn is_exact(&self, at: Timestamp) -> bool {
        at.saturating_since(self.origin) <= EXACT && at.max(self.origin) <= LATEST
    }

    fn is_waited_for(&self, who: Who) -> bool {
        self.waiters.iter().any(|(other, _)| other.key == who.key)
    }

    fn peek(&self, who: Who) -> Usage {
        let usage = self.of(who).peek(who.key);
        assert!(usage.remaining() <= usage.limit(), "{usage:?}");
        usage
    }

    fn of(&self, who: Who) -> &MemoryLimiter<ManualClock> {
        &self.tiers[usize::from(who.tier) % self.tiers.len()]
    }
}

/// The clock's last moment, and two of the longest windows before it: an aligned window has to end.
const LATEST: Timestamp = Timestamp::from_nanos(u64::MAX - 2 * 366 * 86_400 * 1_000_000_000);
