//! The script `policy` decides on windows and logs as the core does, whose states no text limits.

use std::{mem, time::Duration};

use limiter_core::{
    Algorithm, Cost, Decision, Policy, Timestamp,
    algorithms::{Charge, Entries, LogWriter, State, Transition},
};
use proptest::{prelude::*, test_runner::TestRunner};

use crate::{
    tests::arguments::Arguments,
    tests::world::{START, Step, World, after, policies, steps, sub_windows},
};

fn moment(micros: i64) -> Timestamp {
    Timestamp::from_nanos(u64::try_from(micros).unwrap() * 1_000)
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_nanos().div_ceil(1_000)).unwrap()
}

/// Decides as the core, but at a whole microsecond.
fn decide(
    policy: &Policy,
    state: &mut State,
    now: Timestamp,
    cost: Cost,
    within: Duration,
) -> (Decision, Option<Charge>) {
    let transition = policy.transition();
    let wait = transition.wait(state, now, cost);
    let delay = wait.map(|wait| Duration::from_micros(micros(wait).unsigned_abs()));
    let Some(delay) = delay.filter(|it| *it <= within.min(transition.longest_delay(state, now)))
    else {
        return (Decision::refused(transition.usage(state, now), wait), None);
    };
    let at = now.saturating_add(delay);
    let marks = transition.charge(state, now, at, cost);
    let charge = Charge { made: now, at, cost, marks };
    (Decision::admitted(transition.usage(state, now)), Some(charge))
}

fn in_micros(at: Timestamp) -> i64 {
    i64::try_from(at.as_nanos().div_ceil(1_000)).unwrap()
}

/// Returns a state as its text has it: if a list has one writer, its newest permits are those of the newest entry, also
/// after a refund.
fn normal(state: State) -> State {
    let State::Ledger(entries) = &state else { return state };
    let ([only], Some(newest)) = (entries.writers(), entries.iter().next_back()) else {
        return state;
    };
    let writer = LogWriter { newest: newest.at, ..*only };
    let entries = Entries::new(entries.iter().copied(), [writer], entries.largest());
    State::Ledger(Box::new(entries))
}

/// Returns a list without the entries that have ended, which a refund removes, but with all that have written.
fn without_ended(state: &State, policy: &Policy, now: Timestamp) -> State {
    let mut present = state.clone();
    policy.transition().advance(&mut present, now);
    match (state, &present) {
        (State::Ledger(before), State::Ledger(after)) => {
            let writers = before.writers().iter().copied();
            let entries = Entries::new(after.iter().copied(), writers, before.largest());
            State::Ledger(Box::new(entries))
        }
        _ => state.clone(),
    }
}

/// Policies that take turns on a key, here and in the core.
struct Pair {
    world: World,
    sides: Vec<(Arguments, Policy)>,
    state: State,
    /// By which policy it was made.
    charges: Vec<(usize, Charge)>,
}

impl Pair {
    fn new(policies: &[Policy]) -> Self {
        let side = |policy: &Policy| (Arguments::new(&policy.limits()[0]), policy.clone());
        Self {
            world: World::new(),
            sides: policies.iter().map(side).collect(),
            state: State::default(),
            charges: Vec::new(),
        }
    }

    fn step(&mut self, now: i64, cost: u64, choice: u64) -> Result<(), TestCaseError> {
        self.world.server.execute(&["GET", "key"], now);
        if self.world.value().is_none() {
            // Before the clock stepped back, the key has expired.
            self.state = State::default();
        }
        let found = self.world.value();
        let place = usize::try_from(choice % self.sides.len() as u64).unwrap();
        let (choice, rest) = (choice / 3 % 8, choice / 24);
        let refund = rest.checked_rem(self.charges.len() as u64);
        let before = self.state.clone();
        let result = match refund.filter(|_| choice < 2) {
            Some(index) => self.refund(now, usize::try_from(index).unwrap(), rest),
            None if choice == 2 => self.peek(now, place),
            None if choice == 3 => self.take_some(now, place, cost, rest.is_multiple_of(2)),
            None => {
                let within = (choice < 6).then_some(i64::try_from(rest % 50_000_000).unwrap());
                self.take(now, place, cost, within)
            }
        };
        if self.world.value() == found {
            // What has ended stays until something is written, because the clock may step back.
            self.state = before;
        }
        self.state = normal(mem::take(&mut self.state));
        result.map_err(|it| TestCaseError::fail(format!("at {now} on {found:?}: {it}")))
    }

    fn take(
        &mut self,
        now: i64,
        place: usize,
        cost: u64,
        within: Option<i64>,
    ) -> Result<(), TestCaseError> {
        let (limit, policy) = &self.sides[place];
        let within = within.map(|within| within.min(i64::try_from(limit.horizon).unwrap()));
        let reply = self.world.take(now, limit, cost, within.unwrap_or(-1));
        let (transition, at) = (policy.transition(), moment(now));
        transition.advance(&mut self.state, at);
        let soon = Duration::from_micros(within.unwrap_or(0).unsigned_abs());
        let cost = Cost::new(cost).unwrap();
        let (decision, charge) = decide(policy, &mut self.state, at, cost, soon);
        let left = i64::try_from(decision.remaining()).unwrap();
        let mut expected = vec![micros(decision.reset_after()), left];
        if let Some(charge) = charge {
            expected.insert(0, 1);
            if within.is_some() {
                let mark = in_micros(Timestamp::from_nanos(charge.marks.first())) - now;
                expected.extend([in_micros(charge.at) - now, now, mark]);
                self.charges.push((place, charge));
            }
        } else {
            let wait = decision.retry_after().map_or(-1, micros);
            expected = [vec![0], expected, vec![wait]].concat();
        }
        prop_assert_eq!(reply, expected, "take {} within {:?} by {}", cost, within, place);
        Ok(())
    }

    /// Takes up to a cost, or charges it in any case.
    fn take_some(
        &mut self,
        now: i64,
        place: usize,
        cost: u64,
        in_any_case: bool,
    ) -> Result<(), TestCaseError> {
        let (limit, policy) = &self.sides[place];
        let reply = self.world.take(now, limit, cost, if in_any_case { -3 } else { -2 });
        let (transition, at, cost) = (policy.transition(), moment(now), Cost::new(cost).unwrap());
        transition.advance(&mut self.state, at);
        let (decision, charge) = if in_any_case {
            transition.force_charge(&mut self.state, at, cost)
        } else {
            transition.decide_up_to(&mut self.state, at, cost)
        };
        let left = i64::try_from(decision.remaining()).unwrap();
        let mut expected = vec![micros(decision.reset_after()), left];
        if decision.is_admitted() {
            let (permits, mark) = charge.map_or((0, 0), |charge| {
                let mark = in_micros(Timestamp::from_nanos(charge.marks.first())) - now;
                (i64::try_from(charge.cost.get()).unwrap(), mark)
            });
            expected = [vec![1], expected, vec![permits, now, mark]].concat();
            self.charges.extend(charge.map(|charge| (place, charge)));
        } else {
            let wait = decision.retry_after().map_or(-1, micros);
            expected = [vec![0], expected, vec![wait]].concat();
        }
        prop_assert_eq!(reply, expected, "take {} ({}) by {}", cost, in_any_case, place);
        Ok(())
    }

    fn peek(&mut self, now: i64, place: usize) -> Result<(), TestCaseError> {
        let (limit, policy) = &self.sides[place];
        let reply = self.world.take(now, limit, 0, -1);
        let (transition, at) = (policy.transition(), moment(now));
        transition.advance(&mut self.state, at);
        let usage = transition.usage(&self.state, at);
        let left = i64::try_from(usage.remaining()).unwrap();
        prop_assert_eq!(&reply[..3], &[0, micros(usage.reset_after()), left], "peek by {}", place);
        Ok(())
    }

    fn refund(&mut self, now: i64, index: usize, rest: u64) -> Result<(), TestCaseError> {
        let (place, charge) = self.charges[index];
        if !rest.is_multiple_of(5) {
            self.charges.swap_remove(index);
        }
        let (limit, policy) = &self.sides[place];
        let cost = charge.cost.get();
        let permits = if rest.is_multiple_of(3) { rest % cost + 1 } else { cost };
        let (made, at) = (in_micros(charge.made), in_micros(charge.at));
        let mark = in_micros(Timestamp::from_nanos(charge.marks.first())) - made;
        let refund = crate::tests::world::Refund { permits, cost, made, at, mark };
        let back = self.world.refund(now, limit, &refund);
        let (transition, moment) = (policy.transition(), moment(now));
        let mut expected = 0;
        if transition.is_possible(&self.state, moment) {
            expected = transition.refund(&mut self.state, moment, &charge, permits);
        }
        if expected > 0 {
            self.state = without_ended(&self.state, policy, moment);
        }
        prop_assert_eq!(back, expected, "{:?} by {}", refund, place);
        Ok(())
    }
}

fn agree(algorithms: impl Strategy<Value = Algorithm> + Clone) {
    let config = ProptestConfig::with_source_file(file!());
    let law = |(policies, steps): (Vec<Policy>, Vec<Step>)| {
        let (mut pair, mut now) = (Pair::new(&policies), START);
        for (gap, cost, choice) in steps {
            now = after(now, gap, policies[0].limits()[0].quota());
            pair.step(now, cost, choice)?;
        }
        Ok(())
    };
    TestRunner::new(config).run(&(policies(algorithms), steps()), law).unwrap();
}

#[test]
fn windows_and_logs_are_those_of_the_core() {
    Algorithm::one_of_each().filter(|it| !it.is_continuous()).for_each(|it| agree(Just(it)));
}

#[test]
fn sub_windows_are_those_of_the_core() {
    agree(sub_windows());
}
