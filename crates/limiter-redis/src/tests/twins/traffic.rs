//! Random calls of every operation by several policies in turn on the keys of two subjects, sent to a real server and to
//! the twins.

use std::{slice, sync::Arc, time::Duration};

use limiter_core::{Cost, Policy};
use limiter_twins::{Reply, Server, Stored};
use proptest::prelude::*;

use super::{
    choice::{Choice, SUBJECTS},
    rig::{Done, Rig},
};
use crate::{
    ScriptCall,
    scripts::{
        self, Ask, Charge, Charged, CheckReply, Demand, Plan, PolicyReply, PolicyRequest, Route,
        Scripts,
    },
    tests::store::Store,
};

/// Policies with the same families, whose scripts a real server runs and whose twins the other one.
pub(super) struct Pair {
    sides: Vec<Side>,
    server: Server,
    rig: Rig,
    receipts: Vec<Receipt>,
    /// How many leases were granted that begin later.
    pub(super) ahead: usize,
    steps: Vec<Step>,
}

/// A policy.
struct Side {
    plan: Arc<Plan>,
    window: Duration,
}

/// A charge by a policy to a subject, and how many of its permits were not given back.
struct Receipt {
    side: usize,
    subject: usize,
    charged: Charged,
    permits: u64,
}

/// A call, and what the twin did.
struct Step {
    now: i64,
    call: String,
    reply: Reply,
    stored: Vec<Option<Stored>>,
}

/// A check by a policy of a subject.
#[derive(Clone, Copy, Debug)]
struct Check {
    side: usize,
    subject: usize,
    charge: Charge,
}

impl Pair {
    pub(super) fn new(policies: &[Policy]) -> Self {
        let side = |policy: &Policy| {
            let plan = Plan::new(Scripts::shared(), policy, true);
            Side { plan: Arc::new(plan), window: policy.limits()[0].quota().window() }
        };
        let mut server = Server::new(scripts::all());
        for (_, text) in scripts::all() {
            server.execute(&["SCRIPT", "LOAD", text], super::START);
        }
        let sides: Vec<_> = policies.iter().map(side).collect();
        let keys = sides[0].plan.limits.len() * 2 * usize::try_from(SUBJECTS).unwrap();
        let (rig, receipts) = (Rig::new(keys), Vec::new());
        Self { sides, server, rig, receipts, ahead: 0, steps: Vec::new() }
    }

    /// Returns the numbers of a subject's keys, one for each limit; behind them are those of the leases.
    fn keys(&self, subject: usize) -> Vec<usize> {
        let count = self.sides[0].plan.limits.len();
        (0..count).map(|limit| 2 * subject * count + limit).collect()
    }

    fn keys_and_leases(&self, subject: usize) -> Vec<usize> {
        let keys = self.keys(subject);
        let leases: Vec<_> = keys.iter().map(|number| number + keys.len()).collect();
        [keys, leases].concat()
    }

    /// Calls what a random number chooses.
    pub(super) fn random(&mut self, now: i64, cost: Cost, choice: u64) {
        let mut choice = Choice(choice);
        let side = choice.index(self.sides.len());
        let subject = choice.subject();
        match choice.below(24) {
            0 if choice.below(4) == 0 => self.reset(now, subject),
            0..=3 if !self.receipts.is_empty() => self.refund(now, &mut choice),
            4 => self.peek(now, &[(side, subject)]),
            5 => {
                let other = (choice.index(self.sides.len()), choice.subject());
                self.peek(now, &[(side, subject), other]);
            }
            6 => {
                let most = Cost::new(cost.get() + choice.below(30)).unwrap();
                let other = (choice.index(self.sides.len()), choice.subject());
                // All but those within some time, which are below.
                let asks: Vec<_> = Ask::one_of_each().skip(1).collect();
                let ask = asks[choice.index(asks.len())];
                let requests = [(side, subject), other];
                let count = if choice.below(3) == 0 { 2 } else { 1 };
                self.reserve(now, &requests[..count], most, ask);
            }
            7 => self.decide_on_list(now, side, cost, &mut choice),
            8 => {
                let within = choice.below(4_000)
                    * u64::try_from(self.sides[side].window.as_micros()).unwrap()
                    / 1_000;
                let mut requests = vec![(side, subject)];
                if choice.below(4) == 0 {
                    requests.push((choice.index(self.sides.len()), choice.subject()));
                }
                self.reserve(now, &requests, cost, Ask::Within(Duration::from_micros(within)));
            }
            9..=11 => {
                let wanted = cost.get() + choice.below(50);
                self.check(now, side, &[(subject, cost)], wanted, &mut choice);
            }
            12 | 13 => {
                let more = [1, 2].map(|factor| Cost::new(cost.get().div_ceil(factor)).unwrap());
                let checks =
                    [(subject, cost), (choice.subject(), more[0]), (choice.subject(), more[1])];
                let wanted = if choice.below(4) == 0 { cost.get() + choice.below(20) } else { 0 };
                self.check(now, side, &checks, wanted, &mut choice);
            }
            _ => self.check(now, side, &[(subject, cost)], 0, &mut choice),
        }
    }

    /// Checks the first subject where the limit is used up, or gives back a charge: a lease may begin later.
    pub(super) fn lease(&mut self, now: i64, cost: Cost, choice: u64) {
        let mut choice = Choice(choice);
        if choice.below(8) == 0 && !self.receipts.is_empty() {
            return self.refund(now, &mut choice);
        }
        let side = choice.index(self.sides.len());
        let wanted = cost.get() + choice.below(20_000);
        self.check(now, side, &[(0, cost)], wanted, &mut choice);
    }

    /// Checks subjects in one call, the first by `side`, and others by any policy with the same route.
    fn check(
        &mut self,
        now: i64,
        side: usize,
        subjects: &[(usize, Cost)],
        wanted: u64,
        choice: &mut Choice,
    ) {
        let route = self.sides[side].plan.route(wanted);
        let mut checks = Vec::new();
        for (n, &(subject, cost)) in subjects.iter().enumerate() {
            let other = choice.index(self.sides.len());
            let has_route = n > 0 && self.sides[other].plan.route(wanted) == route;
            let side = if has_route { other } else { side };
            checks.push(Check { side, subject, charge: Charge { cost, wanted, route } });
        }
        for (check, reply) in checks.iter().zip(self.checks(now, &checks)) {
            if reply == Reply::Nil {
                let charge = Charge { route: Route::Policy, ..check.charge };
                self.checks(now, &[Check { charge, ..*check }]);
            }
        }
    }

    /// Makes a call of checks, and returns the replies.
    fn checks(&mut self, now: i64, checks: &[Check]) -> Vec<Reply> {
        let Check { side, charge: Charge { route, .. }, .. } = checks[0];
        let requests = checks.iter().map(|check| (&*self.sides[check.side].plan, check.charge));
        let call = self.sides[side].plan.checks(route, requests);
        let mut keys: Vec<_> = checks.iter().flat_map(|check| self.keys(check.subject)).collect();
        if route == Route::Lease {
            let leases = |check: &Check| self.keys_and_leases(check.subject)[1];
            let leases: Vec<_> = checks.iter().map(leases).collect();
            keys.extend(leases);
        }
        let replies = elements(self.call(now, &format!("{checks:?}"), call, &keys), checks.len());
        for (check, reply) in checks.iter().zip(&replies) {
            let Check { side, subject, charge } = *check;
            let Some(numbers) = numbers(reply) else { continue };
            let reply = self.sides[side].plan.checked(&numbers, charge);
            self.note(side, subject, reply.expect("a reply with a meaning"));
        }
        replies
    }

    fn reserve(&mut self, now: i64, requests: &[(usize, usize)], cost: Cost, ask: Ask) {
        let request = PolicyRequest::Reserve(ask);
        let call = self.policy_call(requests, cost, request);
        let keys: Vec<_> = requests.iter().flat_map(|(_, subject)| self.keys(*subject)).collect();
        let text = format!("reserve {cost} {ask:?} by {requests:?}");
        let reply = self.call(now, &text, call, &keys);
        for (&(side, subject), reply) in requests.iter().zip(elements(reply, requests.len())) {
            let Some(numbers) = numbers(&reply) else { continue };
            let demand = [Demand::charge(&self.sides[side].plan, cost)];
            let reply = PolicyReply::read(&demand, request, &numbers);
            let PolicyReply(mut replies) = reply.expect("a reply with a meaning");
            self.note(side, subject, replies.remove(0));
        }
    }

    /// Returns the call of requests of one demand each.
    fn policy_call(
        &self,
        requests: &[(usize, usize)],
        cost: Cost,
        request: PolicyRequest,
    ) -> ScriptCall {
        let plan = |&(side, _): &(usize, usize)| &*self.sides[side].plan;
        let demands = requests.iter().map(|it| ([Demand::charge(plan(it), cost)], request));
        self.sides[0].plan.policy_call(demands)
    }

    /// Decides on a list of a demand on each subject, of which some only ask.
    fn decide_on_list(&mut self, now: i64, side: usize, cost: Cost, choice: &mut Choice) {
        let other = choice.index(self.sides.len());
        let more = Cost::new(cost.get() + choice.below(3)).unwrap();
        let asks = [4, 3].map(|most| choice.below(most) == 0);
        let list = [(side, cost, asks[0]), (other, more, asks[1])];
        let demand = |(side, cost, only_asks): (usize, Cost, bool)| {
            let plan = Arc::clone(&self.sides[side].plan);
            (plan, cost, only_asks)
        };
        let plans = list.map(demand);
        let demands = plans.each_ref().map(|(plan, cost, only_asks)| Demand {
            plan,
            cost: *cost,
            only_asks: *only_asks,
        });
        let keys = [self.keys(0), self.keys(1)].concat();
        let request = PolicyRequest::Reserve(Ask::Within(Duration::ZERO));
        let call = plans[0].0.policy_call([(demands, request)].into_iter());
        let reply = self.call(now, &format!("decide on {list:?}"), call, &keys);
        let Some(numbers) = numbers(&reply) else { return };
        let reply = PolicyReply::read(&demands, request, &numbers);
        let PolicyReply(replies) = reply.expect("a reply with a meaning");
        for (subject, ((side, ..), reply)) in list.into_iter().zip(replies).enumerate() {
            self.note(side, subject, reply);
        }
    }

    fn note(&mut self, side: usize, subject: usize, reply: CheckReply) {
        self.ahead += usize::from(reply.ahead.is_some());
        for charged in reply.charged.into_iter().chain(reply.ahead) {
            let permits = charged.permits();
            self.receipts.push(Receipt { side, subject, charged, permits });
        }
    }

    fn peek(&mut self, now: i64, requests: &[(usize, usize)]) {
        let call = self.policy_call(requests, Cost::ONE, PolicyRequest::Peek);
        let keys: Vec<_> = requests.iter().flat_map(|(_, subject)| self.keys(*subject)).collect();
        self.call(now, &format!("peek by {requests:?}"), call, &keys);
    }

    fn refund(&mut self, now: i64, choice: &mut Choice) {
        let index = choice.index(self.receipts.len());
        let Receipt { side, subject, charged, permits } = &self.receipts[index];
        let (side, subject) = (*side, *subject);
        let back = if choice.below(3) == 0 { choice.below(*permits) + 1 } else { *permits };
        let call = self.sides[side].plan.refund(charged, back);
        let text = format!("refund {back} of {charged:?} by {side} to {subject}");
        // Sometimes once more.
        if choice.below(5) > 0 {
            self.receipts.swap_remove(index);
        }
        let keys = self.keys_and_leases(subject);
        self.call(now, &text, call, &keys);
    }

    fn reset(&mut self, now: i64, subject: usize) {
        let keys = self.keys_and_leases(subject);
        let call = self.sides[0].plan.reset();
        self.call(now, &format!("reset {subject}"), call, &keys);
    }

    /// Returns a limit's quota as states have it, of the first policy.
    pub(super) fn quota(&self, limit: usize) -> &str {
        str::from_utf8(&self.sides[0].plan.limits[limit].arguments[1]).unwrap()
    }

    /// Stores a string at a key of the first subject, as if someone else had. Behind the keys of the limits are those of
    /// leases.
    pub(super) fn set(&mut self, now: i64, place: usize, text: &str) {
        let key = self.keys_and_leases(0)[place];
        self.command(now, "SET", key, &[text]);
    }

    /// Stores a list in the same way.
    pub(super) fn push(&mut self, now: i64, place: usize, elements: &[String]) {
        let key = self.keys_and_leases(0)[place];
        let elements: Vec<_> = elements.iter().map(String::as_str).collect();
        self.command(now, "DEL", key, &[]);
        self.command(now, "RPUSH", key, &elements);
    }

    fn command(&mut self, now: i64, name: &str, key: usize, rest: &[&str]) {
        let words = [name, self.rig.key(key)].into_iter().chain(rest.iter().copied());
        let words: Vec<_> = words.collect();
        let (reply, call) = (self.server.execute(&words, now), words.join(" "));
        self.rig.command(now, name, key, rest);
        let stored = vec![self.server.stored(self.rig.key(key).as_bytes()).cloned()];
        self.steps.push(Step { now, call, reply, stored });
    }

    fn call(&mut self, now: i64, text: &str, mut call: ScriptCall, keys: &[usize]) -> Reply {
        call.keys = keys.iter().map(|key| self.rig.key(*key).to_owned().into()).collect();
        let reply = self.server.execute(&call.args(), now);
        let stored = call.keys.iter().map(|key| self.server.stored(key).cloned()).collect();
        self.rig.call(now, &call, keys);
        let words = call.args().into_iter().skip(2);
        let words = words.map(|word| String::from_utf8_lossy(&word).into_owned());
        let call = format!("{text}: {}", words.collect::<Vec<_>>().join("|"));
        self.steps.push(Step { now, call, reply: reply.clone(), stored });
        reply
    }

    /// Runs the scripts, and holds the twins' replies and what they left against theirs. Returns how many calls there
    /// were.
    pub(super) fn compare(&mut self, store: &Store) -> Result<usize, TestCaseError> {
        let all = self.rig.run(store);
        prop_assert_eq!(all.len(), self.steps.len());
        for (index, (step, done)) in self.steps.iter().zip(&all).enumerate() {
            let Done { reply, stored, .. } = done;
            let before = self.steps[..index].iter().rev().take(3).map(|step| &step.call);
            let Step { now, call, .. } = step;
            let context = || {
                format!(
                    "step {index} at {now}: {call}\nafter {:?}",
                    before.clone().collect::<Vec<_>>()
                )
            };
            prop_assert!(
                is_same(reply, &step.reply),
                "{reply:?}, twin {:?}\n{}",
                step.reply,
                context()
            );
            prop_assert!(
                *stored == step.stored,
                "{stored:?}, twin {:?}\n{}",
                step.stored,
                context()
            );
        }
        let calls = all.len();
        self.steps.clear();
        Ok(calls)
    }
}

/// Returns whether a reply is the twin's. The error of a command also names the script and the line.
fn is_same(reply: &Reply, twin: &Reply) -> bool {
    match (reply, twin) {
        (Reply::Error(error), Reply::Error(twin)) => error.contains(twin),
        _ => reply == twin,
    }
}

/// Returns the replies to so many requests.
fn elements(reply: Reply, requests: usize) -> Vec<Reply> {
    match reply {
        Reply::Array(elements) if requests > 1 => elements,
        reply => vec![reply; requests],
    }
}

/// Returns the numbers of a reply, `None` if it is anything else.
fn numbers(reply: &Reply) -> Option<Vec<i64>> {
    let replies = match reply {
        Reply::Array(replies) => replies,
        reply => slice::from_ref(reply),
    };
    let number = |reply: &Reply| match reply {
        Reply::Integer(number) => Some(*number),
        _ => None,
    };
    replies.iter().map(number).collect()
}
