//! How long a request waits behind waiters, and what it costs to forecast that.

use std::{collections::VecDeque, time::Duration};

use allocation_counter::measure;
use limiter_core::{
    Clock, Decision, Key, ManualClock, Policy, Quota, Receipt, Store, Timestamp,
    algorithms::{Charges, KeyStates, State, operate},
};
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};

use crate::policy;

use super::{Crowd, Keyed, cost, every_kind_of, keyed, ms};

/// The whole log was copied under the locks of its key: 16 MB for 1,000,000 permits.
#[test]
fn a_forecast_copies_the_part_of_a_log_that_waiters_ask_for() {
    const ENTRIES: u64 = 100_000;
    // Some 60 entries.
    const A_FEW: u64 = 1_000;
    let policy = Policy::sliding_log("log", Quota::per_hour(ENTRIES));
    let (limiter, clock) = keyed(policy);
    for _ in 0..ENTRIES {
        clock.advance(Duration::from_micros(1));
        assert!(limiter.check("key").is_admitted());
    }
    let mut crowd = Crowd::new(&clock);
    crowd.join(limiter.acquire("key", cost(1), None));
    let check = || assert!(!limiter.check("key").is_admitted());
    let first_check = measure(check).bytes_total;
    assert!(first_check <= A_FEW, "the first check copied {first_check} bytes");
    crowd.join(limiter.acquire("key", cost(1), None));
    // What waiters asked for that have left is not copied.
    for _ in 0..100 {
        let left = crowd.join(limiter.acquire("key", cost(1_000), None));
        crowd.leave(left);
    }
    let leaver = crowd.join(limiter.acquire("key", cost(1), None));
    check();
    let leave = measure(|| crowd.leave(leaver)).bytes_total;
    assert!(leave <= A_FEW, "a waiter that left copied {leave} bytes");
    // For each permit a few entries, with the memory for those of the waiters.
    let large = measure(|| assert!(!limiter.check_n("key", cost(1_000)).is_admitted()));
    let in_entries = large.bytes_total / 16;
    assert!((1_000..10_000).contains(&in_entries), "{in_entries} entries");
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Check {
        policy: usize,
        cost: u64,
    },
    Charge {
        cost: u64,
    },
    Refund {
        receipt: usize,
    },
    Join {
        policy: usize,
        cost: u64,
    },
    Leave {
        place: usize,
    },
    Reserve {
        cost: u64,
        millis: u64,
    },
    Reset,
    /// Polls the waiters that were woken.
    Poll,
    Advance {
        millis: u64,
    },
}

/// `other` is how often a request is under the second policy.
fn steps(other: f64) -> impl Strategy<Value = Vec<Step>> {
    let policy = move || proptest::bool::weighted(other).prop_map(usize::from);
    let step = prop_oneof![
        8 => (policy(), 1_u64..=4).prop_map(|(policy, cost)| Step::Check { policy, cost }),
        1 => (5_u64..=50).prop_map(|cost| Step::Check { policy: 0, cost }),
        1 => (1_u64..=20).prop_map(|cost| Step::Charge { cost }),
        1 => any::<usize>().prop_map(|receipt| Step::Refund { receipt }),
        4 => (policy(), 1_u64..=4).prop_map(|(policy, cost)| Step::Join { policy, cost }),
        1 => (5_u64..=20).prop_map(|cost| Step::Join { policy: 0, cost }),
        2 => any::<usize>().prop_map(|place| Step::Leave { place }),
        1 => (1_u64..=4, 0_u64..200).prop_map(|(cost, millis)| Step::Reserve { cost, millis }),
        1 => Just(Step::Reset),
        2 => Just(Step::Poll),
        5 => (0_u64..40).prop_map(|millis| Step::Advance { millis }),
        1 => Just(Step::Advance { millis: 400 }),
    ];
    proptest::collection::vec(step, 20..120)
}

/// A limiter with one key, and what its waits are by the key's whole state.
struct Twins {
    handles: [Keyed; 2],
    clock: ManualClock,
    crowd: Crowd,
    receipts: Vec<(Receipt, Charges, usize)>,
    policies: [Policy; 2],
    /// As they are at `at`, when the waiters that were due by then are charged.
    states: Vec<State>,
    at: Timestamp,
    waiting: VecDeque<Waiter>,
    /// Who has a permit, whether or not it was polled since.
    admitted: Vec<usize>,
}

#[derive(Clone, Copy)]
struct Waiter {
    /// In the crowd.
    index: usize,
    policy: usize,
    permits: u64,
}

impl Twins {
    fn new(policies: [Policy; 2]) -> Self {
        let (limiter, clock) = keyed(policies[0].clone());
        let other = limiter.with_policy(&policies[1]).unwrap();
        Self {
            handles: [limiter, other],
            crowd: Crowd::new(&clock),
            clock,
            receipts: Vec::new(),
            states: vec![State::Fresh; policies[0].limits().len()],
            policies,
            at: Timestamp::ZERO,
            waiting: VecDeque::new(),
            admitted: Vec::new(),
        }
    }

    /// Returns when permits fit, from a moment on, and charges them to a state then.
    fn charge(
        &self,
        states: &mut [State],
        from: Timestamp,
        policy: usize,
        permits: u64,
    ) -> Option<Timestamp> {
        let limits = self.policies[policy].transitions();
        let wait = operate(limits, states, from, |states| states.wait(cost(permits)))?;
        let at = from.saturating_add(wait);
        let decision = operate(limits, states, at, |states| states.take(cost(permits), ms(0)));
        assert!(decision.is_admitted());
        Some(at)
    }

    /// Charges the waiters that are due.
    fn settle(&mut self) {
        let now = self.clock.now();
        while let Some(first) = self.waiting.front() {
            let (index, mut states) = (first.index, self.states.clone());
            let due = self.charge(&mut states, self.at, first.policy, first.permits).unwrap();
            if due > now {
                break;
            }
            (self.states, self.at) = (states, due);
            self.admitted.push(index);
            self.waiting.pop_front();
        }
        self.at = now;
    }

    /// Returns how long permits wait behind all waiters, by the whole state.
    fn wait(&self, policy: usize, permits: u64) -> Option<Duration> {
        let (mut states, mut last) = (self.states.clone(), self.at);
        for waiter in &self.waiting {
            last = self.charge(&mut states, last, waiter.policy, waiter.permits).unwrap();
        }
        let at = self.charge(&mut states, last, policy, permits)?;
        Some(at.saturating_since(self.at))
    }

    /// Compares the decision on permits, which are charged to the state if they were admitted.
    fn assert_decision(&self, policy: usize, permits: u64, decision: Decision) {
        let wait = self.wait(policy, permits);
        if wait == Some(Duration::ZERO) {
            assert!(decision.is_admitted(), "{decision:?}");
        } else {
            assert!(!decision.is_admitted(), "{decision:?}, {wait:?}");
            assert_eq!(decision.retry_after(), wait, "{permits} permits");
        }
    }

    /// Compares a deadline: a longer wait is refused at once, and one that ends by then is not.
    fn assert_deadline(&mut self, permits: u64) {
        let wait = self.wait(0, permits);
        let acquire = |within| self.handles[0].acquire("key", cost(permits), within);
        let refused = self.crowd.refused.len();
        let Some(wait) = wait else {
            self.crowd.join(acquire(None));
            return assert_eq!(self.crowd.refused.len(), refused + 1, "{permits} never fit");
        };
        if !wait.is_zero() {
            self.crowd.join(acquire(Some(wait - Duration::from_nanos(1))));
            assert_eq!(self.crowd.refused.len(), refused + 1, "{permits} within {wait:?}");
            let joined = self.crowd.join(acquire(Some(wait)));
            assert!(self.crowd.tasks[joined].acquire.is_some(), "{permits} after {wait:?}");
            self.crowd.leave(joined);
        }
    }

    /// Polls the waiters that were woken, among which are all that have a permit.
    fn poll(&mut self) {
        self.crowd.settle();
        let mut admitted = self.crowd.order();
        admitted.sort_unstable();
        self.admitted.sort_unstable();
        assert_eq!(admitted, self.admitted);
    }

    /// Runs an operation on the states as they are.
    fn now<R>(&mut self, policy: usize, operation: impl FnOnce(&mut KeyStates<'_, '_>) -> R) -> R {
        operate(self.policies[policy].transitions(), &mut self.states, self.at, operation)
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Check { policy, cost: permits } => {
                let reservation = self.handles[policy].reserve("key", cost(permits), ms(0));
                self.assert_decision(policy, permits, reservation.decision());
                if let Some(receipt) = reservation.into_receipt() {
                    let take = |states: &mut KeyStates<'_, '_>| {
                        let _ = states.take(cost(permits), ms(0));
                        states.charges()
                    };
                    let charges = self.now(policy, take);
                    self.receipts.push((receipt, charges.unwrap(), policy));
                }
            }
            Step::Charge { cost: permits } => {
                let _ = self.handles[0].charge("key", cost(permits));
                let _ = self.now(0, |states| states.charge(cost(permits)));
            }
            Step::Refund { receipt } => {
                if !self.receipts.is_empty() {
                    let index = receipt % self.receipts.len();
                    let (receipt, charge, policy) = self.receipts.swap_remove(index);
                    let permits = charge.permits();
                    let back = self.now(policy, |states| states.refund(&charge, permits));
                    assert_eq!(self.handles[policy].refund(receipt), back);
                }
            }
            Step::Join { policy, cost: permits } => {
                let wait = self.wait(policy, permits);
                let index =
                    self.crowd.join(self.handles[policy].acquire("key", cost(permits), None));
                if wait == Some(Duration::ZERO) {
                    let mut states = self.states.clone();
                    self.charge(&mut states, self.at, policy, permits);
                    self.states = states;
                    self.admitted.push(index);
                } else if wait.is_some() {
                    self.waiting.push_back(Waiter { index, policy, permits });
                }
            }
            Step::Leave { place } => {
                if !self.waiting.is_empty() {
                    let left = self.waiting.remove(place % self.waiting.len()).unwrap();
                    self.crowd.leave(left.index);
                }
            }
            Step::Reserve { cost: permits, millis } => {
                let wait = self.wait(0, permits);
                let reserved = self.handles[0].reserve("key", cost(permits), ms(millis));
                if self.waiting.is_empty() {
                    let delay = wait.filter(|wait| *wait <= ms(millis));
                    let _ = self.now(0, |states| states.take(cost(permits), ms(millis)));
                    assert!(reserved.delay() == delay || delay > reserved.delay(), "{reserved:?}");
                } else {
                    assert_eq!((reserved.delay(), reserved.decision().retry_after()), (None, wait));
                }
            }
            Step::Reset => {
                self.handles[0].reset("key");
                self.states.fill(State::Fresh);
                self.receipts.clear();
            }
            Step::Poll => self.poll(),
            Step::Advance { millis } => self.clock.advance(ms(millis)),
        }
        self.settle();
        let usage = self.now(0, |states| states.usage());
        assert_eq!(self.handles[0].peek("key"), usage);
    }
}

fn assert_waits_are_those_of_the_whole_state(policies: [Policy; 2], steps: &[Step]) {
    let mut twins = Twins::new(policies);
    for step in steps {
        twins.run(*step);
        // Of few permits and of many. Not after each step, because a check places all waiters behind the first.
        let asked: &[u64] = if matches!(step, Step::Check { .. }) { &[1, 3, 20] } else { &[] };
        for &permits in asked {
            let decision = Store::preview(&twins.handles[0], &Key::from("key"), cost(permits));
            twins.assert_decision(0, permits, decision.unwrap());
            twins.assert_deadline(permits);
        }
    }
    twins.poll();
}

proptest! {
    /// The copy of a log once merged entries where the log itself had room, so waits behind waiters were too long.
    #[test]
    fn waits_behind_waiters_are_those_by_the_whole_log(steps in steps(0.0)) {
        for limits in [
            "100/s by sliding-log",
            "60/s by sliding-log and 150/3s by sliding-log and 40/s by gcra",
            "100/s by sub-windows 5 slots",
        ] {
            assert_waits_are_those_of_the_whole_state([policy(limits), policy(limits)], &steps);
        }
    }

    #[test]
    fn waits_behind_waiters_are_those_by_the_whole_state_of_every_kind(steps in steps(0.0)) {
        for policy in every_kind_of(Quota::per_second(60)) {
            assert_waits_are_those_of_the_whole_state([policy.clone(), policy], &steps);
        }
    }

    #[test]
    fn waits_behind_waiters_are_those_by_the_whole_state_under_two_policies(steps in steps(0.1)) {
        let [small, large] = [60, 90].map(|permits| every_kind_of(Quota::per_second(permits)));
        let pairs = small.into_iter().zip(large);
        for (small, large) in pairs.filter(|(one, other)| one.identities() == other.identities()) {
            let policies = [small, large];
            assert_waits_are_those_of_the_whole_state(policies.clone(), &steps);
            let [small, large] = policies;
            assert_waits_are_those_of_the_whole_state([large, small], &steps);
        }
    }
}
