//! Services behind a layer of limiter-tower: what is drawn of them.
//!
//! In a world with services, the callers of a process are clients of a service, which has a layer of rules: `user`, the
//! client's own key; `tenant`, whose charges may depend on the response; `all` and `local`, the last one in memory; and a
//! shadow. Their limiters in Redis are one store or two, keys may be blocked, one of the rules may wait, and
//! requests may have to enter a limit on requests in flight. All else is as in
//! other worlds: the processes, the network, the servers and the faults.

mod blocking;
mod holding;
mod waiting;

use std::time::Duration;

use limiter_core::{Algorithm, Error, Policy, Quota};

pub(crate) use self::{
    blocking::{Blocking, Doubling},
    holding::Holding,
    waiting::Waiting,
};
use crate::{
    algorithms::{self, largest_steady_cost},
    fault::{Effect, Fault},
    random::Random,
    vocabulary::KEYS,
    wrong::Wrong,
};

/// The rules whose limiters are in Redis, by the indices of their limiters. Their names are those of the policies.
pub(crate) const RULES: [&str; 4] = ["user", "tenant", "all", "shadow"];
pub(crate) const USER: usize = 0;
pub(crate) const TENANT: usize = 1;
pub(crate) const ALL: usize = 2;
pub(crate) const SHADOW: usize = 3;

/// The rule whose limiter is in memory.
pub(crate) const LOCAL: &str = "local";

/// The key of rules that count all requests.
pub(crate) const SHARED: &str = KEYS[0];

/// A window that is longer than any run, so that nothing recovers, and the charges of a key add up.
const LONG: Duration = Duration::from_secs(3_600);

/// The most permits that a request is charged by one rule.
pub(crate) const MAX_COST: u64 = 3;

/// What separates the numbers of a world with services from those of the same seed without.
pub(crate) const STREAM: u64 = 0x5e72_71ce_5000_0001;

/// What the services of a run are.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// How many of [`RULES`] are in the first store. The others are in a second one.
    pub(crate) in_first_store: usize,
    pub(crate) policies: Vec<Policy>,
    /// Whether the window of each is longer than the run.
    are_long: [bool; RULES.len()],
    pub(crate) local: Policy,
    pub(crate) outcome: Outcome,
    pub(crate) block: Option<Blocking>,
    pub(crate) waiting: Option<Waiting>,
    pub(crate) holding: Option<Holding>,
    /// Whether the rule `user` refuses requests while its store fails.
    pub(crate) denies: bool,
    /// How many requests of a million are dropped before they have a response.
    pub(crate) drops: u32,
    pub(crate) without: Vec<Fault>,
    pub(crate) wrong: Option<Wrong>,
}

/// How the response decides what the rule `tenant` charges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Not at all.
    Ignored,
    /// A success is given back.
    GivenBack,
    /// A success is given back but for one permit.
    GivenBackInPart,
    /// A failure is charged afterwards, and nothing before.
    ChargedAfter,
}

impl Outcome {
    /// What is charged for a failure afterwards.
    pub(crate) const AFTERWARDS: u64 = 2;

    /// Returns how many permits of a charge are given back to a request.
    pub(crate) fn given_back(self, charged: u64, fails: bool) -> u64 {
        match self {
            Self::GivenBack if !fails => charged,
            Self::GivenBackInPart if !fails => charged.saturating_sub(1),
            _ => 0,
        }
    }
}

impl Plan {
    /// Draws the services of a seed.
    pub(crate) fn new(random: &mut Random, wrong: Option<Wrong>) -> Result<Self, Error> {
        // Apart from the other numbers, so that those stay as they are when something is added.
        let mut others = random.clone().fork();
        let mut waiting = Some(Waiting::new(&mut others)).filter(|_| others.below(3) == 0);
        let holding = Some(Holding::new(&mut others, wrong)).filter(|_| match wrong {
            None => others.below(3) == 0,
            Some(wrong) => matches!(wrong, Wrong::KeepsPermits | Wrong::WorksAfterResponse),
        });
        let mut are_long = [0; RULES.len()].map(|_| random.below(2) == 0);
        are_long[SHADOW] = true;
        let mut in_first_store = *random.pick(&[1, 2, RULES.len()]).unwrap_or(&RULES.len());
        let block = Blocking::new(random, &mut others);
        let mut block = Some(block).filter(|_| random.below(2) == 0);
        let outcomes =
            [Outcome::Ignored, Outcome::GivenBack, Outcome::GivenBackInPart, Outcome::ChargedAfter];
        let mut outcome = *random.pick(&outcomes).unwrap_or(&Outcome::Ignored);
        let mut denies = random.below(2) == 0;
        let mut drops = u32::try_from(random.below(300_000)).unwrap_or(0);
        let mut without: Vec<Fault> = Fault::that(&[Effect::OfLimiters]).collect();
        // The charges of several incarnations don't add up, so half of the worlds are without each of these faults.
        let incarnations = Fault::that(&[Effect::StartsIncarnations]);
        without.extend(incarnations.filter(|_| random.below(2) == 0));
        // Where refusals are strikes, a request that waits instead would strike no key.
        if block.is_some_and(|block| block.by_refusals) {
            waiting = waiting.map(|waiting| Waiting { rule: ALL, ..waiting });
        }
        if wrong.is_some() {
            waiting = waiting.filter(|_| wrong == Some(Wrong::ChargesBeforeWaiting));
        }
        match wrong {
            Some(Wrong::ChargesBeforeWaiting) => {
                (are_long, in_first_store) = ([true, false, true, true], RULES.len());
                (outcome, block) = (Outcome::Ignored, None);
                waiting = Some(Waiting { rule: TENANT, within: 800_000, queue: 6 });
            }
            Some(Wrong::OwnKeyLast) => {
                (are_long, in_first_store) = ([true; RULES.len()], 1);
                (denies, drops, block) = (true, 300_000, None);
            }
            Some(Wrong::ForgetsRefunds) => {
                (are_long, in_first_store) = ([true, false, false, true], 1);
                (outcome, block) = (Outcome::Ignored, None);
            }
            Some(Wrong::StrikesWhileBlocked) if block.is_none() => {
                block = Some(Blocking { doubling: None, ..Blocking::OFTEN });
            }
            Some(Wrong::KeepsPermits | Wrong::WorksAfterResponse) => block = None,
            Some(Wrong::ForgetsLevels | Wrong::KeepsLevels) => block = Some(Blocking::OFTEN),
            Some(Wrong::LiftsBlocks | Wrong::KeepsStrikes) => block = Some(Blocking::CLEARED),
            _ => {}
        }
        if let Some(waits) = waiting.and_then(|it| are_long.get_mut(it.rule)) {
            // A window that is longer than the run admits nobody who waits.
            *waits = false;
        }
        // In a world with blocks, `user` is the limit that refuses, so that a key that is struck is blocked.
        let is_tight = block.is_none() && wrong != Some(Wrong::OwnKeyLast);
        let ranges = match is_tight {
            // Requests wait until the end of the run, so other limits don't refuse all of them.
            true if waiting.is_some() => {
                [((6, 20), (200, 800)), ((4, 15), (300, 2_000)), ((8, 30), (500, 4_000))]
            }
            true => [((6, 20), (10, 60)), ((4, 30), (30, 400)), ((4, 40), (50, 800))],
            false => {
                [((6, 12), (8, 30)), ((100, 200), (1_000, 4_000)), ((150, 300), (2_000, 8_000))]
            }
        };
        let mut policies = Vec::new();
        for (index, ((short, long), (name, is_long))) in
            ranges.into_iter().zip(RULES.into_iter().zip(are_long)).enumerate()
        {
            let millis = match waiting {
                Some(waiting) if waiting.rule == index => (100, 700),
                _ => (300, 1_500),
            };
            let (least, most) = if is_long { long } else { short };
            let permits = random.between(least, most);
            policies.push(if is_long {
                long_policy(name, permits, random.below(2) == 0)?
            } else {
                short_policy(name, permits, millis, random)?
            });
        }
        policies.push(long_policy(RULES[SHADOW], 1_000_000, true)?);
        let local = random.between(if is_tight { 100 } else { 4_000 }, 5_000);
        let local = long_policy(LOCAL, local, true)?;
        Ok(Self {
            in_first_store,
            policies,
            are_long,
            local,
            outcome,
            block,
            waiting,
            holding,
            denies,
            drops,
            without,
            wrong,
        })
    }

    /// Returns whether the charges of a rule add up.
    pub(crate) fn is_long(&self, rule: usize) -> bool {
        self.are_long.get(rule).copied().unwrap_or(false)
    }

    /// Returns whether refusals are strikes.
    pub(crate) fn strikes_by_refusals(&self) -> bool {
        self.block.is_some_and(|block| block.by_refusals)
    }

    /// Returns whether failed responses are strikes.
    pub(crate) fn strikes_by_response(&self) -> bool {
        self.block.is_some_and(|block| !block.by_refusals)
    }

    /// Returns whether a success clears the strikes of its key.
    pub(crate) fn clears_on_success(&self) -> bool {
        self.block.is_some_and(|block| block.clears_on_success)
    }

    /// Returns whether a request of a key is never charged by other rules once `user` has no permits left.
    pub(crate) fn protects_others(&self) -> bool {
        self.denies && self.is_long(USER)
    }

    /// Returns the bounds of a rule if it waits.
    pub(crate) fn waiting(&self, rule: usize) -> Option<&Waiting> {
        self.waiting.as_ref().filter(|it| it.rule == rule)
    }
}

/// Returns the limit of a policy.
pub(crate) fn permits(policy: &Policy) -> u64 {
    policy.limits().first().map_or(0, |limit| limit.quota().burst())
}

fn long_policy(name: &str, permits: u64, is_window: bool) -> Result<Policy, Error> {
    let algorithm = if is_window { Algorithm::FixedWindow } else { Algorithm::SlidingLog };
    Policy::new(name, algorithm, Quota::new(permits, LONG)?)
}

/// Returns a policy whose window is over soon. It admits more requests at once than may be in flight.
fn short_policy(
    name: &str,
    permits: u64,
    millis: (u64, u64),
    random: &mut Random,
) -> Result<Policy, Error> {
    let mut own = random.fork();
    let algorithm = algorithms::any(own.fork());
    let window = Duration::from_millis(random.between(millis.0, millis.1));
    let quota = Quota::new(permits, window)?;
    let policy = algorithms::policy(name, algorithms::fitted(&mut own, algorithm, &quota), quota)?;
    if largest_steady_cost(&policy) > Holding::MAX_LIMIT {
        return Ok(policy);
    }
    algorithms::policy(name, algorithms::unpaced(algorithm), quota)
}

/// Returns the key that the store has for a part of the blocks of a key, by the key that it has for the limit.
pub(crate) fn stored_part(limit: &[u8], part: &str) -> Vec<u8> {
    let end = limit.windows(2).position(|it| it == b"}:").map_or(0, |place| place + 2);
    [limit.get(..end).unwrap_or_default(), part.as_bytes()].concat()
}

/// The states of levels and blocks, as keys of the store name them.
pub(crate) const LEVELS: &str = "user-levels";
pub(crate) const BLOCK: &str = "user-block";
