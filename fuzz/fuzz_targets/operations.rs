//! Any operations under any policies, at any time: nothing panics, and decisions are consistent.

#![no_main]

#[path = "operations/bound.rs"]
mod bound;
#[path = "operations/input.rs"]
mod input;

use std::{
    env,
    future::Future,
    pin::Pin,
    sync::LazyLock,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bound::{Admission, Bound};
use input::{By, Bytes, Operation};
use libfuzzer_sys::{Corpus, fuzz_target};
use limiter_core::{
    Algorithm, Clock, Cost, Decision, ManualClock, MemoryLimiter, Policy, Receipt, Reservation,
    Timestamp, Usage,
};

type Limiter = MemoryLimiter<ManualClock>;

/// How long after the start of the clock waits are checked to be exact: 20 years.
const EXACT: Duration = Duration::from_secs(20 * 365 * 86_400);

/// Until when moments are told apart: time stands still at 3 * 2^60 ns, 109 years after the clock's
/// zero. Two of the longest windows less, because an aligned window has to end before that.
const LATEST: Timestamp = Timestamp::from_nanos((3 << 60) - 2 * 366 * 86_400 * 1_000_000_000);

/// Whether to print each operation, to understand an input that fails: `LIMITER_FUZZ_TRACE=1`.
static TRACE: LazyLock<bool> = LazyLock::new(|| env::var_os("LIMITER_FUZZ_TRACE").is_some());

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let mut bytes = Bytes(bytes);
    let algorithms = bytes.algorithms();
    let Some(mut world) = World::new(&mut bytes, &algorithms) else { return Corpus::Reject };
    while !bytes.is_empty() {
        let operation = bytes.operation(&algorithms);
        if *TRACE {
            eprintln!("{operation:?}");
        }
        world.run(operation);
    }
    world.bound.check();
    Corpus::Keep
});

struct World {
    clock: ManualClock,
    origin: Timestamp,
    /// The limiter and up to three handles on it.
    handles: Vec<Limiter>,
    receipts: Vec<Taken>,
    waiters: Vec<Waiter>,
    bound: Bound,
    /// Whether the clock has ever stepped back.
    went_back: bool,
    /// Whether permits were ever promised for later.
    promised: bool,
}

/// A receipt, and what it was issued for.
struct Taken {
    receipt: Receipt,
    key: u8,
    limiter: Limiter,
    admission: Option<Admission>,
}

struct Waiter {
    by: By,
    limiter: Limiter,
    future: Pin<Box<dyn Future<Output = Reservation> + Send>>,
}

impl World {
    fn new(bytes: &mut Bytes<'_>, algorithms: &[Algorithm]) -> Option<Self> {
        let policy = bytes.policy("first", algorithms)?;
        if *TRACE {
            eprintln!("{policy:#?}");
        }
        let clock = ManualClock::new();
        let origin = Timestamp::from_nanos(bytes.number());
        clock.set(origin);
        let capacity = usize::from(bytes.byte()) + 1;
        let builder = MemoryLimiter::builder(policy.clone()).capacity(capacity);
        let limiter = builder.clock(clock.clone()).build().expect("the capacity is within bounds");
        Some(Self {
            clock,
            origin,
            handles: vec![limiter],
            receipts: Vec::new(),
            waiters: Vec::new(),
            bound: Bound::new(&policy),
            went_back: false,
            promised: false,
        })
    }

    fn run(&mut self, operation: Operation) {
        match operation {
            Operation::Check { by, cost } => {
                let limiter = self.of(by);
                let cost = cost.get(peek(&limiter, by.key).burst());
                self.check(&limiter, by.key, cost);
            }
            Operation::Reserve { by, cost, within } => {
                let limiter = self.of(by);
                let cost = cost.get(peek(&limiter, by.key).burst());
                let reservation = limiter.reserve(by.key, cost, within);
                assert!(reservation.delay().is_none_or(|delay| delay <= within));
                assert!(reservation.delay().is_none_or(|delay| delay <= horizon(limiter.policy())));
                self.keep(limiter, by.key, cost, reservation);
            }
            Operation::TakeUpTo { by, most } => {
                let limiter = self.of(by);
                let most = most.get(peek(&limiter, by.key).burst());
                self.take_up_to(limiter, by.key, most);
            }
            Operation::Charge { by, cost } => {
                let limiter = self.of(by);
                let cost = cost.get(peek(&limiter, by.key).burst());
                self.charge(limiter, by.key, cost);
            }
            Operation::Peek { by } => {
                peek(&self.of(by), by.key);
            }
            Operation::Refund { receipt, keep } => self.refund(receipt, keep),
            Operation::Reset { by } => {
                self.of(by).reset(by.key);
                self.bound.forget(by.key);
            }
            Operation::WithPolicy { handle, policy: Some(policy) } => {
                self.with_policy(handle, &policy);
            }
            Operation::WithPolicy { policy: None, .. } => {}
            Operation::Set { now } => self.set(now),
            Operation::Advance { by } => self.clock.advance(by),
            Operation::Back { by } => {
                let back = self.clock.now().saturating_since(Timestamp::ZERO.saturating_add(by));
                self.set(Timestamp::ZERO.saturating_add(back));
            }
            Operation::Acquire { by, cost, within } => {
                let limiter = self.of(by);
                let cost = cost.get(peek(&limiter, by.key).burst());
                let future = limiter.acquire(by.key, cost, within);
                // A waiter is charged for the moment at which it is due, which it does not report.
                self.bound.forget(by.key);
                self.waiters.push(Waiter { by, limiter, future });
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
        if self.went_back {
            (0..4).for_each(|key| self.bound.forget(key));
        }
    }

    fn check(&mut self, limiter: &Limiter, key: u8, cost: Cost) {
        let before = peek(limiter, key);
        let decision = limiter.check_n(key, cost);
        if *TRACE {
            eprintln!("    at {:?}: {decision:?}", self.clock.now());
        }
        self.is_consistent(limiter, key, cost, &decision);
        if decision.is_admitted() {
            let fits = cost.get() <= before.remaining();
            assert!(fits || !self.is_exact(self.clock.now()), "{cost} of {before:?}");
            self.bound.admit(key, limiter.policy(), self.clock.now(), cost);
            return;
        }
        // A check is refused while there are waiters, and charges those that are due.
        if self.has_waiters(key) {
            return;
        }
        assert_eq!(peek(limiter, key), before, "a refusal changes nothing");
        let Some(wait) = decision.retry_after() else { return };
        // Behind a reservation, a cost waits even if it fits into what remains.
        if !self.promised && !self.went_back {
            assert!(cost.get() > before.remaining(), "{cost} of {before:?}: {decision:?}");
        }
        let now = self.clock.now();
        let then = now.saturating_add(wait);
        if now < self.origin || !self.is_exact(then) {
            return;
        }
        self.clock.set(Timestamp::from_nanos(then.as_nanos() - 1));
        let early = limiter.check_n(key, cost);
        assert!(!early.is_admitted(), "admitted a nanosecond before {wait:?}");
        self.clock.set(then);
        let retry = limiter.check_n(key, cost);
        assert!(retry.is_admitted(), "refused after {wait:?}: {retry:?}");
        self.bound.admit(key, limiter.policy(), then, cost);
    }

    fn take_up_to(&mut self, limiter: Limiter, key: u8, most: Cost) {
        let before = peek(&limiter, key);
        let taken = limiter.take_up_to(key, most);
        let Ok(permits) = Cost::new(taken.permits()) else {
            assert!(!taken.is_admitted(), "{taken:?}");
            assert!(
                self.has_waiters(key) || peek(&limiter, key) == before,
                "a refusal changes nothing"
            );
            return;
        };
        assert!(taken.delay() == Some(Duration::ZERO) && permits <= most, "{taken:?} of {most}");
        if self.is_exact(self.clock.now()) && !self.has_waiters(key) {
            assert_eq!(permits.get(), most.get().min(before.remaining()), "of {before:?}");
        }
        self.keep(limiter, key, permits, taken);
    }

    /// Charges what may exceed the limit, so that the key is not checked by its bound any more.
    fn charge(&mut self, limiter: Limiter, key: u8, cost: Cost) {
        let before = peek(&limiter, key).remaining();
        let charged = limiter.charge(key, cost);
        assert!(charged.permits() <= cost.get(), "{charged:?} of {cost}");
        self.bound.forget(key);
        let after = peek(&limiter, key).remaining();
        assert!(
            after <= before.saturating_sub(charged.permits()),
            "{after} after {before}: {charged:?}"
        );
        if let Some(receipt) = charged.into_receipt() {
            self.receipts.push(Taken { receipt, key, limiter, admission: None });
        }
    }

    fn refund(&mut self, index: usize, keep: u64) {
        let Some(index) = index.checked_rem(self.receipts.len()) else { return };
        let Taken { receipt, key, limiter, admission } = self.receipts.swap_remove(index);
        let before = peek(&limiter, key).remaining();
        let receipt = receipt.keep(keep);
        let permits = receipt.permits();
        // Any handle takes the receipt of any other.
        let back = self.handles[0].refund(receipt);
        assert!(back <= permits, "{back} of {permits} came back");
        if let Some(admission) = admission {
            self.bound.give_back(admission, back);
        }
        let after = peek(&limiter, key).remaining();
        // Of several limits, others may have got back more than the one that got back least.
        let most = if limiter.policy().limits().len() == 1 { back } else { permits };
        assert!(after <= before.saturating_add(most), "{after} after {before}: {back}");
    }

    fn with_policy(&mut self, handle: u8, policy: &Policy) {
        let first = &self.handles[0];
        let Ok(limiter) = first.with_policy(policy) else {
            // Its limits have other names or algorithms.
            return;
        };
        assert_eq!(limiter.policy(), policy);
        assert_eq!(limiter.policy().families(), first.policy().families());
        self.is_enforced(policy);
        match usize::from(handle) % 4 {
            0 => self.handles[0] = limiter,
            index if index < self.handles.len() => self.handles[index] = limiter,
            _ => self.handles.push(limiter),
        }
    }

    /// Checks that a handle decides as a limiter that was built with its policy.
    fn is_enforced(&self, policy: &Policy) {
        let build = |policy: &Policy| {
            let builder = MemoryLimiter::builder(policy.clone()).capacity(1);
            builder.clock(self.clock.clone()).build().expect("the capacity is within bounds")
        };
        let own = build(policy);
        let other = build(self.handles[0].policy());
        let handle = other.with_policy(policy).expect("its families are equal");
        let limit = own.peek(0).burst();
        for permits in [limit.saturating_add(1), limit.div_ceil(2), limit, 1, limit / 2] {
            let cost = Cost::new(permits.max(1)).expect("at least one");
            assert_eq!(handle.check_n(0, cost), own.check_n(0, cost));
            assert_eq!(handle.reserve(0, cost, Duration::MAX).delay(), {
                own.reserve(0, cost, Duration::MAX).delay()
            });
            assert_eq!(handle.peek(0), own.peek(0));
        }
    }

    fn poll(&mut self, index: usize) {
        // When time stands still, a timer for a later moment never fires.
        if self.clock.now() > LATEST {
            return;
        }
        let context = &mut Context::from_waker(Waker::noop());
        if let Poll::Ready(reservation) = self.waiters[index].future.as_mut().poll(context) {
            assert!(reservation.delay().is_none_or(|delay| delay.is_zero()));
            let Waiter { by, limiter, .. } = self.waiters.swap_remove(index);
            self.bound.forget(by.key);
            self.keep(limiter, by.key, Cost::ONE, reservation);
        }
    }

    /// Keeps the receipt of `cost`, if it was admitted, for a refund.
    fn keep(&mut self, limiter: Limiter, key: u8, cost: Cost, reservation: Reservation) {
        self.is_consistent(&limiter, key, cost, &reservation.decision());
        let Some(delay) = reservation.delay() else { return };
        if !delay.is_zero() {
            self.promised = true;
        }
        let at = self.clock.now().saturating_add(delay);
        let admission = self.bound.admit(key, limiter.policy(), at, cost);
        let receipt = reservation.into_receipt().expect("an admission has a receipt");
        self.receipts.push(Taken { receipt, key, limiter, admission });
    }

    fn is_consistent(&self, limiter: &Limiter, key: u8, cost: Cost, decision: &Decision) {
        assert!(decision.remaining() <= decision.burst(), "{decision:?}");
        let limits = limiter.policy().limits();
        let limit = &limits[decision.limit_index()];
        let largest = match limit.algorithm() {
            Algorithm::SubWindows(slots) if slots.is_paced() => decision.burst(),
            _ => limit.quota().burst(),
        };
        assert_eq!(decision.burst(), largest, "the limit is that of the handle's policy");
        if decision.is_admitted() {
            let fits = limits.iter().all(|limit| cost.get() <= limit.quota().burst());
            assert!(fits, "{cost} of {limits:?}");
        } else if !self.has_waiters(key) {
            // Waiters may have to be polled first, however short the wait is.
            assert_ne!(decision.retry_after(), Some(Duration::ZERO), "{decision:?}");
        }
    }

    fn is_exact(&self, at: Timestamp) -> bool {
        at.saturating_since(self.origin) <= EXACT && at.max(self.origin) <= LATEST
    }

    fn has_waiters(&self, key: u8) -> bool {
        self.waiters.iter().any(|waiter| waiter.by.key == key)
    }

    fn of(&self, by: By) -> Limiter {
        self.handles[usize::from(by.handle) % self.handles.len()].clone()
    }
}

fn peek(limiter: &Limiter, key: u8) -> Usage {
    let usage = limiter.peek(key);
    assert!(usage.remaining() <= usage.burst(), "{usage:?}");
    usage
}

/// Returns how far ahead a policy may promise permits.
fn horizon(policy: &Policy) -> Duration {
    policy.limits().iter().map(limiter_core::Limit::horizon).min().unwrap_or_default()
}
