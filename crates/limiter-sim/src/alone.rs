//! Keys with one caller, after the faults have stopped: whether each wait that a refusal names is exact.
//!
//! One process uses a key up, and nobody else asks for it. Then:
//!
//! - A cost that is refused for a wait is refused by the store shortly before that, and admitted after it, whether the
//!   refusal was the store's, a cached denial or that of a lease. Where permits are leased, a wait may be longer than
//!   the store's, and one of a sliding counter may be followed by another one: law 3.
//! - A cost that the store refused does not refuse a smaller one, for which the refusal said that there are permits.
//! - A larger cost than the refused one gets a wait that is exact, too. Where permits are leased, requests of the process
//!   itself may charge the key meanwhile, and another wait may follow.
//!
//! A trip each way, and clocks that differ in rate by less than a thousandth, are allowed for: a check before the end of
//! a wait is earlier by a round trip and a thousandth, one after it later by a thousandth. If the server has lost the
//! script, a second call follows the first one and is executed up to a round trip later. So an admission by a second call is
//! not judged, because the wait may be over by then.

use std::{sync::Arc, time::Duration};

use limiter_core::{Algorithm, Cost, Decision, Error, Policy, Source};

use crate::{
    algorithms::{largest_cost, largest_steady_cost},
    executor::Executor,
    fleet::micros,
    processes::Processes,
    random::Random,
    records::{Answer, End, Operation, Question},
    traffic::{Member, Target},
    vocabulary::{KEYS, Micros},
};

/// How long a key may take to be used up.
const USED_UP_IN: Micros = 3_000_000;

/// The longest wait that is slept.
const LONGEST: Micros = 5_000_000;

/// What a key is asked for, by a caller that is alone.
struct Alone {
    member: Arc<Member>,
    executor: Executor,
    target: Target,
    leases: bool,
    is_counter: bool,
    has_several: bool,
    tells_waits: bool,
    /// The largest cost that fits, and the largest one that then fits until the next charge.
    burst: u64,
    steady: u64,
}

/// A refusal, when it was received, and by whom.
#[derive(Clone, Copy)]
struct Refusal {
    decision: Decision,
    received: Micros,
}

impl Refusal {
    fn wait(&self) -> Micros {
        self.decision.retry_after().map_or(Micros::MAX, micros)
    }
}

/// Starts a caller for each key, in one of the processes. Returns when all have ended.
pub(crate) fn start(processes: &Processes, executor: &Executor, random: &mut Random) -> Micros {
    let until = executor.now() + 2 * processes.fleet.longest_window() + 2_000_000;
    let members: Vec<_> = processes.members().cloned().collect();
    for limiter in 0..processes.fleet.limiters() {
        let tier = processes.tier(limiter);
        let Some(policy) = processes.fleet.tiers(limiter).get(tier) else { continue };
        for key in 0..KEYS.len() {
            let target = Target { limiter, key, tier };
            let Some(member) = random.pick(&members) else { continue };
            let Some(leases) = member.is_leased(target) else { continue };
            let (executor, member) = (executor.clone(), Arc::clone(member));
            let (is_counter, burst) = (is_counter(policy), largest_cost(policy));
            let process = member.process;
            let has_several = policy.limits().len() > 1;
            let alone = Alone {
                member,
                executor: executor.clone(),
                target,
                leases,
                is_counter,
                has_several,
                tells_waits: tells_waits(policy),
                burst,
                steady: largest_steady_cost(policy),
            };
            executor.spawn(process, alone.run(random.fork(), until));
        }
    }
    // A round uses the key up, and sleeps for two waits at most.
    until + USED_UP_IN + 3 * LONGEST
}

fn is_counter(policy: &Policy) -> bool {
    policy.limits().iter().any(|limit| limit.algorithm() == Algorithm::SlidingCounter)
}

fn tells_waits(policy: &Policy) -> bool {
    let [limit] = policy.limits() else { return false };
    match limit.algorithm() {
        Algorithm::Gcra
        | Algorithm::LeakyQueue { .. }
        | Algorithm::FixedWindow
        | Algorithm::AlignedWindow => true,
        Algorithm::SlidingCounter | Algorithm::SubWindows(_) | Algorithm::SlidingLog => false,
    }
}

impl Alone {
    async fn run(self, mut random: Random, until: Micros) {
        while self.executor.now() < until {
            // A wait may be less than a microsecond.
            self.member.sleep(100).await;
            let done = match random.below(3) {
                0 => self.waits(random.between(1, 5)).await,
                1 => self.smaller_cost().await,
                _ => self.larger_cost().await,
            };
            if done.is_none() {
                return;
            }
        }
    }

    /// Uses the key up by a cost, and checks the wait of its refusal.
    async fn waits(&self, cost: u64) -> Option<()> {
        let cost = cost.min(self.burst);
        let Some(refusal) = self.use_up(cost).await? else { return Some(()) };
        if refusal.decision.source() == Source::Cache {
            // It may be that of a smaller cost, from before.
            self.sleep_until(refusal.received + refusal.wait().min(LONGEST)).await;
            return Some(());
        }
        // A second one is the cached denial of the first, unless that is over already.
        let Some(refusal) = self.check(cost).await? else { return Some(()) };
        if !self.before(cost, refusal).await? {
            return Some(());
        }
        self.after(cost, refusal, self.leases && self.is_counter).await
    }

    /// Lets a large cost be refused, and checks that a cost that fits is admitted.
    async fn smaller_cost(&self) -> Option<()> {
        let large = self.burst.min(50);
        let Some(Refusal { decision, .. }) = self.use_up(large).await? else { return Some(()) };
        let left = decision.remaining();
        // A policy of several limits reports what is left of the limit that refuses.
        let is_all = !self.has_several && decision.source() == Source::State;
        // Where permits are leased, these may have recovered since the process has found none, which lasts for less than
        // a 16th of the time in which the burst does.
        let least = if self.leases { self.burst / 16 + 1 } else { 0 };
        if is_all && left > least && self.check(1).await?.is_some() {
            self.violated(&format!(
                "1 permit was refused after {large}, of which {left} were left"
            ));
        }
        Some(())
    }

    /// Lets a small cost be refused and then a larger one, and checks the wait of that.
    async fn larger_cost(&self) -> Option<()> {
        let large = self.burst.min(5);
        let Some(_) = self.use_up(1).await? else { return Some(()) };
        let Some(refusal) = self.check(large).await? else { return Some(()) };
        // The limiter computes the wait of a larger cost from the cached usage for these policies only.
        if large > 1 && !self.tells_waits && refusal.decision.source() == Source::Cache {
            return Some(());
        }
        self.after(large, refusal, self.leases).await
    }

    /// Checks that the store refuses a cost shortly before its wait is over. Returns `false` if a second call admitted
    /// the cost, which is sent if the server does not have the script. Returns `None` if the first call admitted it, or if the
    /// store does not decide in time.
    async fn before(&self, cost: u64, refusal: Refusal) -> Option<bool> {
        let Some(wait) = refusal.decision.retry_after().map(micros) else { return Some(true) };
        let early = self.member.fleet.trips.there_and_back() + wait / 1_000 + 10;
        if self.leases || wait <= early || wait > LONGEST {
            return Some(true);
        }
        self.sleep_until(refusal.received + wait - early).await;
        // It asks the store, whatever is cached.
        let limiter = self.member.handle(self.target)?;
        let calls = self.calls();
        let operation = self.asks("reserve", cost);
        let answer =
            limiter.reserve(&self.target.key(), Cost::new(cost).ok()?, Duration::ZERO).await;
        let refused = self.answered(&operation, cost, answer.map(|it| it.decision()))?;
        if refused.is_some() {
            return Some(true);
        }
        if self.calls() > calls + 1 {
            return Some(false);
        }
        self.violated(&format!(
            "{cost} permits were admitted {early} us before their wait was over"
        ));
        None
    }

    /// Checks that a cost is admitted when its wait is over, or after another wait.
    async fn after(&self, cost: u64, mut refusal: Refusal, mut has_other: bool) -> Option<()> {
        loop {
            let Some(wait) = refusal.decision.retry_after().map(micros) else { return Some(()) };
            if wait > LONGEST {
                return Some(());
            }
            self.sleep_until(refusal.received + wait + wait / 1_000 + 10).await;
            let Some(other) = self.check(cost).await? else { return Some(()) };
            if cost > self.steady {
                return Some(());
            }
            if !std::mem::take(&mut has_other) {
                let (before, after) = (refusal.decision.source(), other.decision.source());
                self.violated(&format!(
                    "{cost} permits were refused by {before:?} for {wait} us, and after that by {after:?} for {} more",
                    other.wait(),
                ));
                return None;
            }
            refusal = other;
        }
    }

    /// Checks a cost until it is refused, if that happens soon. `None` if the store does not decide in time.
    async fn use_up(&self, cost: u64) -> Option<Option<Refusal>> {
        let until = self.executor.now() + USED_UP_IN;
        while self.executor.now() < until {
            let refused = self.check(cost).await?;
            if refused.is_some() {
                return Some(refused);
            }
        }
        Some(None)
    }

    /// Checks a cost, and returns the refusal. `None` if the store does not decide in time.
    async fn check(&self, cost: u64) -> Option<Option<Refusal>> {
        let limiter = self.member.handle(self.target)?;
        let operation = self.asks("check", cost);
        let answer = limiter.check_n(&self.target.key(), Cost::new(cost).ok()?).await;
        self.answered(&operation, cost, answer)
    }

    /// Returns how many calls the process has sent about the key.
    fn calls(&self) -> u64 {
        let of_key = (self.member.process, self.target.subject());
        self.member.with_records(|records, _| records.calls.get(&of_key).copied().unwrap_or(0))
    }

    fn asks(&self, operation: &'static str, permits: u64) -> Operation {
        let Target { limiter, tier, .. } = self.target;
        let is_direct = !self.member.leases(limiter);
        let question = Question { operation, permits, tier, is_direct };
        self.member.with_records(|records, moment| {
            records.asks(moment, (self.member.process, limiter), self.target.subject(), question)
        })
    }

    fn answered(
        &self,
        operation: &Operation,
        cost: u64,
        answer: Result<Decision, Error>,
    ) -> Option<Option<Refusal>> {
        self.member.with_records(|records, moment| match answer {
            Ok(decision) => {
                let permits = decision.is_admitted().then_some(cost);
                let wait = decision.retry_after().map(micros);
                let source = decision.source();
                let answer = Answer { source, permits, delay: 0, wait, of_request: None };
                records.decides(moment, operation, answer);
                records.ends(moment, operation, End::Answered);
                let refusal = Refusal { decision, received: moment.now };
                (source != Source::Local).then_some((!decision.is_admitted()).then_some(refusal))
            }
            Err(error) => {
                records.ends(moment, operation, End::Failed(&error));
                None
            }
        })
    }

    async fn sleep_until(&self, time: Micros) {
        self.member.sleep(time.saturating_sub(self.executor.now())).await;
    }

    fn violated(&self, message: &str) {
        let subject = self.target.subject();
        self.member.with_records(|records, moment| records.violated(moment, subject, message));
    }
}
