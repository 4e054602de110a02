//! The conformance rows and the laws with leases on.

mod receipts;
mod wakers;

use std::{iter, mem, slice, sync::Arc, time::Duration};

use limiter_core::{Algorithm, Cost, Policy, Quota, Receipt, Source, Timestamp};
use limiter_test::{
    conformance::{CHARGES, GCRA, OPERATIONS, SEVERAL, WINDOWS, run as run_rows},
    laws::{self, Law},
    oracle::Admitted,
    properties,
    schedule::{Request, Scenario, Tick, Time, traffic},
    subject::Subject,
};
use proptest::{collection::vec, prelude::*, sample::select, test_runner::TestRunner};

use super::store::{InRedis, Store, drain, states, unique};
use crate::scripts::{LeaseTerms, Plan};

const KEY: &str = "key";

fn leasing(store: &Arc<Store>, policy: &Policy) -> InRedis {
    store.process_of(&unique(), slice::from_ref(policy), true)
}

fn terms(policy: &Policy) -> Option<LeaseTerms> {
    Plan::new(policy, policy.name(), true).lease
}

#[test]
fn rows_conform_with_leases() {
    let store = Store::new();
    let files = [GCRA, WINDOWS, SEVERAL, OPERATIONS, CHARGES];
    run_rows(&files, |policy| leasing(&store, &policy));
}

/// Returns a policy of which permits are leased.
fn leased() -> impl Strategy<Value = Policy> {
    let algorithms = select(vec![
        Algorithm::Gcra,
        Algorithm::FixedWindow,
        Algorithm::AlignedWindow,
        Algorithm::SlidingCounter,
    ]);
    let millis = prop_oneof![Just(20), Just(1_000), 20..=5_000_u64, 5_000..=600_000_u64];
    let permits = prop_oneof![3 => 64..=200_u64, 1 => 200..=5_000_u64];
    let tenths = prop_oneof![Just(10), 1..=40_u64];
    (algorithms, millis, permits, tenths).prop_filter_map(
        "no leases",
        |(algorithm, millis, permits, tenths)| {
            let quota = Quota::new(permits, Duration::from_millis(millis)).ok()?;
            let quota = match algorithm {
                Algorithm::Gcra => quota.try_with_burst(permits * tenths / 10).ok()?,
                _ => quota,
            };
            let policy = Policy::new("test", algorithm, quota).ok()?;
            terms(&policy).map(|_| policy)
        },
    )
}

fn run<S: Strategy>(strategy: &S, law: impl Fn(S::Value) -> Law) {
    TestRunner::new(properties::config(file!(), 64)).run(strategy, law).unwrap();
}

/// Tries a law with one policy at a time.
fn holds(law: fn(&mut InRedis, &Scenario) -> Law, time: Time, most: usize) {
    run(&traffic(leased(), Tick::Micro, time, most), |scenario| {
        // One for each, because gaps of years add up to more than a clock can show.
        let store = Store::new();
        law(&mut leasing(&store, &scenario.policy), &scenario)
    });
}

#[test]
fn law_1_never_over() {
    holds(|it, scenario| laws::never_over(it, scenario), Time::Forward, 60);
}

/// What is left of leases that have ended is returned first, because the next call returns it, whatever it decides.
#[test]
fn law_2_a_refusal_writes_nothing() {
    let law = |subject: &mut InRedis, scenario: &Scenario| {
        for Request { now, cost, .. } in scenario.requests() {
            subject.set_clock(now);
            let _ = subject.limiter.counters();
            subject.process.run();
            let before = states(subject, KEY);
            if !subject.decide(now, KEY, cost).is_admitted() {
                prop_assert_eq!(states(subject, KEY), before);
            }
        }
        Ok(())
    };
    holds(law, Time::Forward, 60);
}

/// What is left of a lease that has ended is returned with the next call, even if that is refused, or too large to be leased.
#[test]
fn a_refused_check_returns_what_an_ended_lease_had_left() {
    let store = Store::new();
    let policy = Policy::parse("test", "1000/s by fixed-window").unwrap();
    for cost in [Cost::ONE, Cost::of(900)] {
        let prefix = unique();
        let process = |lease| store.process_of(&prefix, slice::from_ref(&policy), lease);
        let (mut subject, mut other) = (process(true), process(false));
        let now = Timestamp::from_nanos(0);
        let mut admitted = 1;
        while subject.decide(now, KEY, Cost::ONE).source() != Source::Lease {
            admitted += 1;
        }
        let ended = now.saturating_add(terms(&policy).unwrap().length);
        let rest = Cost::of(other.peek(ended, KEY).remaining());
        assert!(other.decide(ended, KEY, rest).is_admitted());
        assert!(!subject.decide(ended, KEY, cost).is_admitted(), "{cost}");
        assert_eq!(other.peek(ended, KEY).used(), admitted + rest.get(), "{cost}");
    }
}

/// Returns how long a counter's permit that fits may have to wait for the lease that it is a part of.
fn longest_until_lease(policy: &Policy) -> Duration {
    let fades = terms(policy).unwrap().length / 24;
    fades + fades / 1_024 + Duration::from_micros(2)
}

/// A refusal while the key is scarce names the later of the store's wait and the next request, and a permit is
/// admitted then. Of a counter, what a lease leaves does not say when the next permit fits, and a permit may be refused
/// once more until the next lease begins.
#[test]
fn law_3_a_retry_is_admitted() {
    let law = |subject: &mut InRedis, scenario: &Scenario| {
        let mut offset = Duration::ZERO;
        for Request { now, policy, cost } in scenario.requests() {
            let now = now.saturating_add(offset);
            let decision = subject.decide(now, KEY, cost);
            laws::is_coherent(&decision, policy, cost)?;
            let is_counter = policy.limits()[0].algorithm() == Algorithm::SlidingCounter;
            let is_exact = !is_counter || decision.source() == Source::State;
            if cost == Cost::ONE
                && is_exact
                && let Some(wait) = decision.retry_after().filter(|wait| !wait.is_zero())
            {
                let micros = u64::try_from(wait.as_nanos().div_ceil(1_000)).unwrap();
                let mut wait = Duration::from_micros(micros);
                let mut due = subject.decide(now.saturating_add(wait), KEY, cost);
                if is_counter && !due.is_admitted() {
                    let until_lease = due.retry_after().unwrap();
                    prop_assert!(until_lease <= longest_until_lease(policy), "{due:?}");
                    wait += until_lease;
                    due = subject.decide(now.saturating_add(wait), KEY, cost);
                    prop_assert_eq!(due.source(), Source::Lease);
                }
                prop_assert!(due.is_admitted(), "refused after {wait:?}: {decision:?}, {due:?}");
                offset += wait;
            }
        }
        Ok(())
    };
    holds(law, Time::Forward, 60);
}

/// At the end of a full window, the store's wait is for one permit. The next lease is of two, so it begins later.
#[test]
fn a_permit_of_a_counter_may_be_refused_once_more_until_a_lease_begins() {
    let policy = Policy::parse("test", "717/3679ms by sliding-counter").unwrap();
    let mut subject = leasing(&Store::new(), &policy);
    let mut now = Timestamp::from_nanos(0);
    let mut ask = |gap, cost| {
        now = now.saturating_add(Duration::from_micros(gap));
        subject.decide(now, KEY, Cost::of(cost))
    };
    let gaps = [0, 3_153_726, 5_296, 309_985, 0, 0, 0, 0];
    assert!(gaps.iter().all(|gap| ask(*gap, 1).is_admitted()));
    assert!(ask(2_396, 708).is_admitted());
    assert!(ask(0, 1).is_admitted());
    assert!(!ask(0, 384).is_admitted());
    assert_eq!(ask(0, 1).retry_after(), Some(Duration::from_micros(212_729)));
    let refused = ask(212_729, 1).retry_after().unwrap();
    assert!(refused > Duration::from_millis(5) && refused <= longest_until_lease(&policy));
    let due = ask(u64::try_from(refused.as_nanos().div_ceil(1_000)).unwrap(), 1);
    assert!(due.is_admitted() && due.source() == Source::Lease, "{due:?}");
}

/// Of 20 permits, one fades in 50 ms. A lease of 10 of them would begin half a second later, and what fits meanwhile would
/// be refused.
#[test]
fn no_lease_is_reserved_of_a_window_before_that_fades_slowly() {
    let policy = Policy::parse("test", "1000/s by sliding-counter").unwrap();
    let mut subject = leasing(&Store::new(), &policy);
    let mut ask = |micros: u64, cost| {
        let now = Timestamp::from_nanos(1_000 * micros);
        subject.decide(now, KEY, Cost::of(cost)).is_admitted()
    };
    assert!(ask(0, 20) && ask(1_000_100, 958));
    while ask(1_000_100, 1) {}
    assert!(!ask(1_049_000, 1));
    for millis in [1_100, 1_150, 1_200, 1_250] {
        assert!(ask(1_000 * millis, 1), "{millis}");
    }
}

#[test]
fn law_4_recovered_equals_absent() {
    holds(|it, scenario| laws::recovered_equals_absent(it, scenario), Time::Forward, 20);
}

#[test]
fn law_5_a_clock_that_steps_back_gives_nothing() {
    holds(|it, scenario| laws::never_over(it, scenario), Time::AnyWay, 60);
}

#[test]
fn law_5_no_wait_outlasts_a_recovery() {
    holds(|it, scenario| laws::no_wait_outlasts_a_recovery(it, scenario), Time::AnyWay, 60);
}

#[test]
fn law_7_a_refund_gives_back_no_more_than_was_taken() {
    holds(
        |it, scenario| laws::a_refund_gives_back_no_more_than_was_taken(it, scenario),
        Time::AnyWay,
        60,
    );
}

#[test]
fn law_7_refunds_never_lift_above_the_bound() {
    holds(|it, scenario| laws::refunds_never_lift_above_the_bound(it, scenario), Time::Forward, 60);
}

/// What a process does.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Some checks one after the other, of a cost each.
    Checks(u64, u64),
    /// A check of all that the store has left.
    All,
    Reserve(u64),
    Refund(usize),
    Drain,
    /// The process ends without giving anything back, and is started again.
    Kill,
}

/// The time before it, which process, and what it does.
type Step = (Duration, usize, Act);

fn steps(policy: &Policy) -> impl Strategy<Value = Vec<Step>> + use<> {
    let quota = *policy.limits()[0].quota();
    let length = terms(policy).unwrap().length;
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap();
    let (length, window) = (micros(length), micros(quota.window()));
    let edge = prop_oneof![Just(length), Just(window), Just(length - length / 1_024)];
    let gap = prop_oneof![
        8 => Just(0),
        6 => 0..=length / 20,
        4 => 0..=length,
        4 => (edge, 0..=3_u64).prop_map(|(edge, around)| (edge + around).saturating_sub(2)),
        1 => 0..=2 * window,
    ];
    let cost = prop_oneof![8 => Just(1), 1 => 1..=quota.burst()];
    let act = prop_oneof![
        8 => (1..=40_u64, cost).prop_map(|(number, cost)| Act::Checks(number, cost)),
        3 => Just(Act::All),
        2 => (1..=quota.burst()).prop_map(Act::Reserve),
        2 => any::<usize>().prop_map(Act::Refund),
        1 => Just(Act::Drain),
        1 => Just(Act::Kill),
    ];
    vec((gap.prop_map(Duration::from_micros), 0..4_usize, act), 1..40)
}

/// Law 1 for a fleet: processes with leases, and one without, that check, reserve, refund, drain and are killed,
/// stay within the bound together.
#[test]
fn law_1_a_fleet_stays_within_the_bound() {
    let store = Store::new();
    let fleets = leased().prop_flat_map(|policy| {
        let steps = steps(&policy);
        (Just(policy), steps)
    });
    run(&fleets, |(policy, steps)| {
        let prefix = unique();
        let process =
            |number: usize| store.process_of(&prefix, slice::from_ref(&policy), number != 0);
        let mut fleet: Vec<_> = (0..4).map(process).collect();
        let mut admitted = Admitted::by_ticks_of(Duration::from_micros(1));
        let mut receipts: Vec<(usize, usize, Receipt)> = Vec::new();
        let mut now = Timestamp::from_nanos(0);
        for (gap, number, act) in steps {
            now = now.saturating_add(gap);
            admitted.set_clock(now);
            let all = fleet[0].peek(now, KEY).remaining();
            let subject = &mut fleet[number];
            match act {
                Act::Checks(times, cost) => {
                    for cost in iter::repeat_n(Cost::of(cost), usize::try_from(times).unwrap()) {
                        let decision = subject.decide(now, KEY, cost);
                        laws::is_coherent(&decision, &policy, cost)?;
                        if !decision.is_admitted() {
                            break;
                        }
                        admitted.add(&policy, cost);
                    }
                }
                Act::All if all == 0 => {}
                Act::All => {
                    let is_admitted = fleet[0].decide(now, KEY, Cost::of(all)).is_admitted();
                    prop_assert!(is_admitted, "{all} do not remain");
                    admitted.add(&policy, Cost::of(all));
                }
                Act::Reserve(cost) => {
                    let cost = Cost::of(cost);
                    let reserved = subject.reserve(now, KEY, cost, Duration::ZERO);
                    if let Some(receipt) = reserved.into_receipt() {
                        receipts.push((number, admitted.additions(), receipt));
                        admitted.add(&policy, cost);
                    }
                }
                Act::Refund(_) if receipts.is_empty() => {}
                Act::Refund(place) => {
                    let place = place % receipts.len();
                    let (number, addition, receipt) = receipts.swap_remove(place);
                    admitted.give_back(addition, fleet[number].refund(now, receipt));
                }
                Act::Drain => drain(subject, now),
                Act::Kill => mem::forget(mem::replace(subject, process(number))),
            }
        }
        prop_assert_eq!(admitted.over(), None);
        Ok(())
    });
}

/// A lease that another process got since may be in the debt of a check, which then gives less back. Without one, it
/// is returned whole.
#[test]
fn law_7_checks_are_refunded_less_the_length_of_a_lease() {
    let store = Store::new();
    let policy = Policy::parse("test", "1000/s").unwrap();
    let now = Timestamp::from_nanos(0);
    let length = terms(&policy).unwrap().length;
    assert_eq!(length, Duration::from_millis(250));
    for (has_lease, cost, back) in
        [(false, 300, 300), (false, 1, 1), (true, 300, 50), (true, 250, 0), (true, 1, 0)]
    {
        let prefix = unique();
        let process = || store.process_of(&prefix, slice::from_ref(&policy), true);
        let (mut subject, mut other) = (process(), process());
        let reserved = subject.reserve(now, KEY, Cost::of(cost), Duration::ZERO);
        while has_lease && other.decide(now, KEY, Cost::ONE).source() != Source::Lease {}
        assert_eq!(subject.refund(now, reserved.into_receipt().unwrap()), back, "{cost}");
    }
}
