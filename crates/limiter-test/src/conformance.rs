//! What every limiter returns, row by row.

mod charges;
mod gcra;
mod operations;
mod several;
mod spans;
mod windows;

use std::time::Duration;

use limiter_core::{
    Algorithm, Cost, Decision, Policy, Quota, Receipt, Reservation, Timestamp, Usage,
};

use crate::subject::{Operations, Subject};

/// A policy, and requests in their order.
struct Case {
    name: &'static str,
    policy: fn() -> Policy,
    rows: &'static [Row],
}

/// One request and all that it returns. Times are in milliseconds.
#[derive(Clone, Copy)]
struct Row {
    at: u64,
    key: &'static str,
    ask: Ask,
    want: Want,
}

#[derive(Clone, Copy)]
enum Ask {
    Check(u64),
    Peek,
    /// The cost, and within how long.
    Reserve(u64, u64),
    /// As many as fit, at most so many.
    TakeUpTo(u64),
    /// The cost in any case.
    Charge(u64),
    /// The index of the reservation, and how much of it is kept.
    Refund(usize, u64),
    Reset,
    /// Makes all later requests under another policy.
    Switch(fn() -> Policy),
}

#[derive(Clone, Copy)]
enum Want {
    Admitted {
        remaining: u64,
        reset: u64,
    },
    Refused {
        remaining: u64,
        retry: Option<u64>,
        reset: u64,
    },
    Usage {
        remaining: u64,
        reset: u64,
    },
    Delay(Option<u64>),
    /// An admission of so many permits.
    Took {
        permits: u64,
        remaining: u64,
        reset: u64,
    },
    /// How many permits were returned.
    Back(u64),
    Nothing,
    /// A decision of the limit with this index.
    By(u8, &'static Want),
}

const fn row(at: u64, ask: Ask, want: Want) -> Row {
    Row { at, key: "a", ask, want }
}

const fn yes(at: u64, cost: u64, remaining: u64, reset: u64) -> Row {
    row(at, Ask::Check(cost), Want::Admitted { remaining, reset })
}

const fn no(at: u64, cost: u64, remaining: u64, retry: u64, reset: u64) -> Row {
    row(at, Ask::Check(cost), Want::Refused { remaining, retry: Some(retry), reset })
}

const fn never(at: u64, cost: u64, remaining: u64, reset: u64) -> Row {
    row(at, Ask::Check(cost), Want::Refused { remaining, retry: None, reset })
}

const fn of(key: &'static str, row: Row) -> Row {
    Row { key, ..row }
}

/// Runs the rows of GCRA on limiters that `make` makes for their policies.
///
/// # Panics
///
/// Like all others here, at the first row that returns something else.
pub fn gcra<S: Subject>(mut make: impl FnMut(Policy) -> S) {
    checks(gcra::ROWS, &mut make);
    // A queue that nothing is reserved in is GCRA.
    checks(gcra::ROWS, |policy| {
        let limit = policy.limits().first().expect("a policy has a limit");
        make(policy_of(Algorithm::LeakyQueue { depth: 1 }, *limit.quota()))
    });
}

/// Runs the rows of the algorithms with windows.
pub fn windows<S: Subject>(make: impl FnMut(Policy) -> S) {
    checks(windows::ROWS, make);
}

/// Runs the rows of several limits at once.
pub fn several<S: Subject>(make: impl FnMut(Policy) -> S) {
    checks(several::ROWS, make);
}

/// Runs the rows of all operations but checks.
pub fn operations<S: Operations>(make: impl FnMut(Policy) -> S) {
    operate(operations::ROWS.iter().chain(charges::ROWS), make);
}

/// Runs the rows of policies in turn on one key, of limiters whose states belong to a span.
pub fn spans<S: Operations>(make: impl FnMut(Policy) -> S) {
    operate(spans::ROWS, make);
}

/// Runs those rows whose increments memory rounds up, to a quarter of a nanosecond.
pub fn spans_by_quarter_nanos<S: Operations>(make: impl FnMut(Policy) -> S) {
    operate(spans::BY_QUARTER_NANOS, make);
}

/// Runs those rows whose increments Redis rounds up, to a microsecond.
pub fn spans_by_micros<S: Operations>(make: impl FnMut(Policy) -> S) {
    operate(spans::BY_MICROS, make);
}

fn operate<S: Operations>(
    cases: impl IntoIterator<Item = &'static Case>,
    mut make: impl FnMut(Policy) -> S,
) {
    for case in cases {
        let mut subject = make((case.policy)());
        let mut receipts = Vec::new();
        for (index, row) in case.rows.iter().enumerate() {
            row.operate(&mut subject, &mut receipts, &format!("{}, row {index}", case.name));
        }
    }
}

fn checks<S: Subject>(cases: &[Case], mut make: impl FnMut(Policy) -> S) {
    for case in cases {
        let mut subject = make((case.policy)());
        for (index, row) in case.rows.iter().enumerate() {
            row.check(&mut subject, &format!("{}, row {index}", case.name));
        }
    }
}

impl Row {
    fn check(&self, subject: &mut impl Subject, place: &str) {
        let Ask::Check(cost) = self.ask else {
            panic!("{place}: not a check");
        };
        let decision = subject.decide(self.now(), self.key, Cost::of(cost));
        self.want.of_decision(&decision, place);
    }

    fn operate(
        &self,
        subject: &mut impl Operations,
        receipts: &mut Vec<Option<Receipt>>,
        place: &str,
    ) {
        let now = self.now();
        match self.ask {
            Ask::Check(_) => self.check(subject, place),
            Ask::Peek => self.want.of_usage(&subject.peek(now, self.key), place),
            Ask::Reserve(cost, within) => {
                let within = Duration::from_millis(within);
                let reservation = subject.reserve(now, self.key, Cost::of(cost), within);
                let Want::Delay(delay) = self.want else {
                    panic!("{place}: a reservation has a delay");
                };
                assert_eq!(reservation.delay(), delay.map(Duration::from_millis), "{place}");
                receipts.push(reservation.into_receipt());
            }
            Ask::TakeUpTo(most) => {
                let taken = subject.take_up_to(now, self.key, Cost::of(most));
                self.took(taken, receipts, place);
            }
            Ask::Charge(cost) => {
                let charged = subject.charge(now, self.key, Cost::of(cost));
                self.took(charged, receipts, place);
            }
            Ask::Refund(index, kept) => {
                let receipt = receipts.get_mut(index).and_then(Option::take);
                let receipt = receipt.unwrap_or_else(|| panic!("{place}: no such receipt"));
                let back = subject.refund(now, receipt.keep(kept));
                let Want::Back(permits) = self.want else {
                    panic!("{place}: a refund returns permits");
                };
                assert_eq!(back, permits, "{place}");
            }
            Ask::Reset => subject.reset(now, self.key),
            Ask::Switch(policy) => subject.switch(&policy()),
        }
    }

    fn took(&self, taken: Reservation, receipts: &mut Vec<Option<Receipt>>, place: &str) {
        let decision = taken.decision();
        if let Want::Took { permits, remaining, reset } = self.want {
            assert_eq!(taken.permits(), permits, "{place}");
            assert_eq!(taken.delay(), Some(Duration::ZERO), "{place}");
            Want::Admitted { remaining, reset }.of_decision(&decision, place);
        } else {
            assert_eq!((taken.permits(), taken.delay()), (0, None), "{place}");
            self.want.of_decision(&decision, place);
        }
        receipts.push(taken.into_receipt());
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.at * 1_000_000)
    }
}

impl Want {
    fn of_decision(&self, decision: &Decision, place: &str) {
        match *self {
            Self::Admitted { remaining, reset } => {
                assert!(decision.is_admitted(), "{place}: {decision:?}");
                assert_eq!(decision.retry_after(), Some(Duration::ZERO), "{place}");
                Self::Usage { remaining, reset }.of_usage(&decision.usage(), place);
            }
            Self::Refused { remaining, retry, reset } => {
                assert!(!decision.is_admitted(), "{place}: {decision:?}");
                let retry = retry.map(Duration::from_millis);
                assert_eq!(decision.retry_after(), retry, "{place}");
                Self::Usage { remaining, reset }.of_usage(&decision.usage(), place);
            }
            Self::By(index, want) => {
                assert_eq!(decision.limit_index(), usize::from(index), "{place}: {decision:?}");
                want.of_decision(decision, place);
            }
            _ => panic!("{place}: a check is admitted or refused"),
        }
    }

    fn of_usage(&self, usage: &Usage, place: &str) {
        let Self::Usage { remaining, reset } = *self else {
            panic!("{place}: a peek returns the usage");
        };
        let want = (remaining, Duration::from_millis(reset));
        assert_eq!((usage.remaining(), usage.reset_after()), want, "{place}");
    }
}

fn quota(permits: u64, window_ms: u64) -> Quota {
    Quota::new(permits, Duration::from_millis(window_ms)).expect("the rows' quotas are valid")
}

fn policy_of(algorithm: Algorithm, quota: Quota) -> Policy {
    Policy::new("test", algorithm, quota).expect("the rows' quotas can be served")
}

fn gcra_of(permits: u64, window_ms: u64, burst: u64) -> Policy {
    Policy::gcra("test", quota(permits, window_ms).with_burst(burst))
}
