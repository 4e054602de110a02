//! The scripts of a policy: what they are called with, and what their replies mean.

use std::{borrow::Cow, ops::Range, sync::Arc, time::Duration};

use limiter_core::{Cost, Decision, Error, ErrorKind, Policy, Usage};

use super::{Check, Operation, Single, ledger::Ledger, script};
use crate::{batch::Queue, script::Script};

/// A policy, as the server's scripts apply it.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Those of all tiers, tier by tier.
    limits: Vec<Single>,
    /// The numbers of their quotas, as the scripts are given them.
    quotas: Arc<[u8]>,
    /// The policy itself.
    first: Tier,
    /// Its other tiers.
    others: Vec<Tier>,
}

#[derive(Debug)]
struct Tier {
    own: Range<usize>,
    check: Check,
    /// The checks that are to be sent together.
    queue: Queue,
    take: Script,
    peek: Script,
    refund: Script,
    reset: Script,
}

/// The numbers that each limit has replied.
type Numbers<'a> = Vec<(&'a Single, &'a [i64])>;

/// A script and what it is called with.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) script: &'a Script,
    /// `ARGV[1]`.
    pub(crate) quotas: &'a Arc<[u8]>,
    /// `ARGV[2]` and on.
    pub(crate) arguments: Vec<i64>,
}

/// What a script took, or that it refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) decision: Decision,
    /// Of an admission for which a receipt was wanted.
    pub(crate) charged: Option<Charged>,
}

/// What a refund needs to know of a charge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Charged {
    cost: i64,
    /// When it was charged, by the server's clock.
    charged: i64,
    delay: i64,
    marks: Vec<i64>,
}

/// The farthest that anything is promised: five times the longest window.
const MAX_DELAY: Duration = Duration::from_secs(5 * 366 * 86_400);

/// More than any quota's permits, and exact in a double.
const MAX_COST: i64 = 1 << 53;

impl Charged {
    pub(crate) fn delay(&self) -> Duration {
        Duration::from_micros(u64::try_from(self.delay).unwrap_or_default())
    }
}

impl Plan {
    pub(crate) fn new(prelude: &str, policy: &Policy) -> Result<Self, Error> {
        let mut limits = Vec::new();
        for tier in [policy].into_iter().chain(policy.tiers()) {
            for limit in tier.limits() {
                limits.push(Single::new(limit)?);
            }
        }
        let too_large =
            |limit: &&Single| matches!(limit, Single::Ledger(own) if !own.can_be_packed());
        if limits.len() > 1 && limits.iter().any(|limit| too_large(&limit)) {
            let most = Ledger::MAX_PACKED;
            return Err(Error::new(
                ErrorKind::InvalidSetting,
                format!(
                    "the policy {:?}: through Redis, one of several limits, or one with tiers, has \
                     at most {most} slots, or {most} permits in a log",
                    policy.name()
                ),
            ));
        }
        let each = policy.limits().len();
        let tier = |index: usize| Tier::new(prelude, &limits, index * each..(index + 1) * each);
        let others = (1..=policy.tiers().len()).map(tier).collect();
        let first = tier(0);
        let packed = |limit: &Single| limit.packed(limits.len() == 1);
        let quotas = limits.iter().flat_map(packed).collect();
        Ok(Self { limits, quotas, first, others })
    }

    /// Returns the call that takes `cost` now, without a receipt.
    pub(crate) fn check(&self, tier: usize, cost: Cost) -> Call<'_> {
        let one = &self.tier(tier).check.one;
        self.call(one, if cost == Cost::ONE { Vec::new() } else { vec![whole(cost)] })
    }

    /// Returns the call that takes costs now, each of a key of its own, without receipts.
    pub(crate) fn checks(&self, tier: usize, costs: &[Cost]) -> Call<'_> {
        if let &[cost] = costs {
            return self.check(tier, cost);
        }
        let costs = if costs.iter().all(|cost| *cost == Cost::ONE) { &[] } else { costs };
        self.call(&self.tier(tier).check.many, costs.iter().copied().map(whole).collect())
    }

    pub(crate) fn queue(&self, tier: usize) -> &Queue {
        &self.tier(tier).queue
    }

    /// Returns the call that takes `cost` `within` some time.
    pub(crate) fn take(&self, tier: usize, cost: Cost, within: Duration) -> Call<'_> {
        let longest = self.own(tier).iter().map(Single::longest_delay).min();
        let within = within.min(longest.unwrap_or_default()).min(MAX_DELAY);
        let within = i64::try_from(within.as_micros()).unwrap_or_default();
        self.call(&self.tier(tier).take, vec![whole(cost), within])
    }

    pub(crate) fn peek(&self, tier: usize) -> Call<'_> {
        self.call(&self.tier(tier).peek, Vec::new())
    }

    pub(crate) fn reset(&self, tier: usize) -> Call<'_> {
        self.call(&self.tier(tier).reset, Vec::new())
    }

    /// Returns the call that gives back `permits` of a charge.
    pub(crate) fn refund(&self, tier: usize, charge: &Charged, permits: u64) -> Call<'_> {
        let Charged { cost, charged, delay, ref marks } = *charge;
        let permits = i64::try_from(permits).unwrap_or(cost).min(cost);
        let mut arguments = vec![permits, cost, charged, charged.saturating_add(delay)];
        arguments.extend(marks);
        self.call(&self.tier(tier).refund, arguments)
    }

    /// Returns what a reply to a check or to a reservation means, `None` if it can't be one.
    pub(crate) fn taken(&self, tier: usize, reply: &[i64], cost: Cost) -> Option<Taken> {
        let reply = &*self.numbers(reply);
        let is_admitted = *reply.first()? > 0;
        let (each, rest) = self.split(tier, reply)?;
        let usages = each.iter().enumerate();
        let usages = usages.map(|(index, (limit, numbers))| limit.usage(numbers).of_limit(index));
        if is_admitted {
            let decision = Decision::admitted(Usage::of_fewest_left(usages));
            let charged = match rest {
                [] => None,
                &[delay, now] => {
                    let marks = each.iter().flat_map(|(limit, numbers)| limit.mark(numbers, now));
                    let cost = whole(cost);
                    Some(Charged { cost, charged: now, delay, marks: marks.collect() })
                }
                _ => return None,
            };
            return Some(Taken { decision, charged });
        }
        let waits = each.iter().map(|(limit, numbers)| limit.wait(numbers, cost));
        let retry_after = match rest {
            [] => waits.clone().next()?,
            &[-1] => None,
            // Of several limits, slots may miss the longest wait.
            &[wait] => Some(Duration::from_micros(u64::try_from(wait).ok()?)),
            _ => return None,
        };
        let usage = Usage::of_longest_wait(waits.zip(usages));
        Some(Taken { decision: Decision::refused(usage, retry_after), charged: None })
    }

    /// Returns what a reply to a look means, `None` if it can't be one.
    pub(crate) fn peeked(&self, tier: usize, reply: &[i64]) -> Option<Usage> {
        let (each, _) = self.split(tier, reply)?;
        let usages = each.iter().enumerate();
        let usages = usages.map(|(index, (limit, numbers))| limit.usage(numbers).of_limit(index));
        Some(Usage::of_fewest_left(usages))
    }

    /// Returns the numbers of a reply, all of which may have come in one.
    pub(crate) fn numbers<'a>(&self, reply: &'a [i64]) -> Cow<'a, [i64]> {
        let [limit] = self.limits.as_slice() else { return reply.into() };
        limit.unpacked(reply).map_or(Cow::Borrowed(reply), Cow::Owned)
    }

    /// Returns the numbers of each limit of a tier, and what is behind them.
    fn split<'a>(&'a self, tier: usize, reply: &'a [i64]) -> Option<(Numbers<'a>, &'a [i64])> {
        let mut rest = reply;
        let mut each = Vec::with_capacity(1);
        for limit in self.own(tier) {
            let (numbers, behind) = rest.split_at_checked(limit.numbers())?;
            each.push((limit, numbers));
            rest = behind;
        }
        Some((each, rest))
    }

    /// Returns whether both apply the same quotas, so that the marks of one mean the same to the other.
    pub(crate) fn has_quotas_of(&self, other: &Self) -> bool {
        self.quotas == other.quotas
    }

    /// Returns whether both keep the same kind of value at a key.
    pub(crate) fn has_values_of(&self, other: &Self) -> bool {
        self.is_tape() == other.is_tape()
    }

    pub(crate) const fn is_tape(&self) -> bool {
        matches!(self.limits.as_slice(), [Single::Ledger(_)])
    }

    #[cfg(test)]
    pub(crate) fn limits(&self) -> &[Single] {
        &self.limits
    }

    const fn call<'a>(&'a self, script: &'a Script, arguments: Vec<i64>) -> Call<'a> {
        Call { script, quotas: &self.quotas, arguments }
    }

    fn tier(&self, index: usize) -> &Tier {
        // There is no handle on more than there are.
        index.checked_sub(1).and_then(|index| self.others.get(index)).unwrap_or(&self.first)
    }

    fn own(&self, tier: usize) -> &[Single] {
        self.limits.get(self.tier(tier).own.clone()).unwrap_or_default()
    }
}

impl Tier {
    fn new(prelude: &str, limits: &[Single], own: Range<usize>) -> Self {
        let of = |operation| script(prelude, limits, &own, operation);
        Self {
            check: Check::new(prelude, limits, &own),
            queue: Queue::default(),
            take: of(Operation::Take),
            peek: of(Operation::Peek),
            refund: of(Operation::Refund),
            reset: of(Operation::Reset),
            own,
        }
    }
}

fn whole(cost: Cost) -> i64 {
    i64::try_from(cost.get()).unwrap_or(i64::MAX).min(MAX_COST)
}
