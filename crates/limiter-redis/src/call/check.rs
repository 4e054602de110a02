//! A check: a charge now, without a receipt. The scripts `gcra`, `window` and `log` check subjects by one limit each, `lease`
//! may charge more than the cost, and `list` checks by several limits.

use std::{slice, sync::Arc, time::Duration};

use bytes::Bytes;
use limiter_core::{Cost, Timestamp};

use super::{
    list::{self, Ask},
    operation::{Batched, Operation},
    reply::{ADMITTED, Charged, CheckReply, REFUSED, wait},
};
use crate::{
    client::{ScriptCall, ScriptReply, faults::Outcome},
    context::Context,
    denials::{Denial, Denials, Ticket},
    events::Events,
    scripts::{Kind, LeaseTerms, Plan, ScriptLimit, Scripts, counted, exact, number},
};

/// Charges a cost now, without a receipt. Or leases permits, if some are wanted.
pub(crate) struct Check {
    context: Arc<Context>,
    plan: Arc<Plan>,
    key: Bytes,
    charge: Charge,
    ticket: Ticket,
}

/// What a check asks of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge {
    pub(crate) cost: Cost,
    /// How many permits to lease, none if 0. They include the cost.
    pub(crate) wanted: u64,
    pub(crate) route: Route,
}

/// Which script decides a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Route {
    /// That of the only limit's kind.
    Own(Kind),
    Lease,
    List,
}

impl Check {
    /// Returns a check, which leases permits if more than the cost are `wanted`.
    pub(crate) fn new(
        context: &Arc<Context>,
        plan: &Arc<Plan>,
        key: Bytes,
        (cost, wanted): (Cost, u64),
    ) -> Self {
        Self {
            ticket: context.denials.ticket(&key),
            charge: Charge::of(plan, cost, wanted),
            context: Arc::clone(context),
            plan: Arc::clone(plan),
            key,
        }
    }
}

impl Operation for Check {
    type Output = CheckReply;

    fn key(&self) -> &Bytes {
        &self.key
    }

    fn events(&self) -> (&Arc<Events>, &str) {
        (&self.context.events, self.plan.policy.name())
    }

    fn begin(&self) -> ScriptCall {
        self.charge.route.begin()
    }

    fn add(&self, call: &mut ScriptCall) {
        self.plan.add_keys(&self.key, &mut call.keys);
        self.charge.add(&self.plan, &mut call.arguments);
    }

    fn is_of_caller(&self) -> bool {
        self.charge.wanted == 0
    }

    fn read(&self, reply: &ScriptReply, _: Timestamp) -> Option<CheckReply> {
        self.charge.read(&self.plan, &reply.integers()?)
    }

    fn note(&self, outcome: &Outcome<CheckReply>, sent: Timestamp, is_late: bool) {
        let Ok(CheckReply { decision, .. }) = outcome else { return };
        let Self { context, plan, key, charge, ticket } = self;
        // What is leased is counted when it is spent, and what is late as undetermined.
        if self.is_of_caller() && !is_late {
            context.events.tally.decided(decision);
        }
        let received = context.now();
        if decision.is_admitted() {
            context.denials.charged(*ticket, key, received);
        } else {
            let denial = Denial { cost: charge.cost, decision: *decision, sent, received };
            context.denials.insert(Denials::MAX_AGE, *ticket, (key, &plan.policy), denial);
        }
    }
}

impl Batched for Check {
    type Kind = Route;

    fn kind(&self) -> Route {
        self.charge.route
    }

    fn max_batch(&self) -> usize {
        self.plan.max_batch
    }
}

impl Route {
    /// Returns the call to which requests are added.
    pub(crate) fn begin(self) -> ScriptCall {
        let Scripts { lease, list, .. } = Scripts::shared();
        match self {
            Self::Own(kind) => {
                let (script, head) = kind.script();
                ScriptCall::of(script, vec![head])
            }
            Self::Lease => ScriptCall::of(lease, Vec::new()),
            Self::List => ScriptCall::of(list, Vec::new()),
        }
    }
}

impl Charge {
    /// Returns a charge, which may become a lease of the permits that are `wanted`.
    pub(crate) const fn of(plan: &Plan, cost: Cost, wanted: u64) -> Self {
        let route = match plan.own {
            None => Route::List,
            Some(_) if wanted > 0 && plan.lease.is_some() => Route::Lease,
            Some(kind) => Route::Own(kind),
        };
        Self { cost, wanted, route }
    }

    /// Adds its arguments to a call of its route.
    pub(crate) fn add(self, plan: &Plan, arguments: &mut Vec<Bytes>) {
        let Self { cost, wanted, route } = self;
        match (route, plan.limits.as_slice()) {
            (Route::Own(_), [limit]) => limit.add_own_arguments(cost, arguments),
            (Route::Lease, [limit]) => {
                arguments.extend(limit.words.iter().cloned());
                let term = plan.lease.map_or(0, |terms| terms.term);
                arguments.extend([counted(cost), exact(wanted), exact(term)].map(number));
            }
            _ => Ask::Check.add(&[(plan, counted(cost))], arguments),
        }
    }

    /// Returns what a reply means, `None` if it can't be one or contradicts itself.
    pub(crate) fn read(self, plan: &Plan, numbers: &[i64]) -> Option<CheckReply> {
        match (self.route, plan.limits.as_slice()) {
            (Route::Own(_), [limit]) => own_reply(limit, numbers, self.cost),
            (Route::Lease, [limit]) => leased(limit, plan.lease, numbers, self.cost),
            _ => list::read(Ask::Check, &[(plan, counted(self.cost))], numbers)?.pop(),
        }
    }
}

/// Returns what the reply of a limit's own script means, `None` if it can't be one or contradicts itself.
fn own_reply(limit: &ScriptLimit, numbers: &[i64], cost: Cost) -> Option<CheckReply> {
    match (&limit.gcra, numbers) {
        (Some(gcra), &[debt]) if debt > 0 => {
            Some(CheckReply::admitted(gcra.usage(debt.unsigned_abs()), None))
        }
        // -1 less the debt that refuses the cost.
        (Some(gcra), &[number]) => {
            let debt = u64::try_from(number.checked_add(1)?.checked_neg()?).ok()?;
            CheckReply::refused(gcra.usage(debt), gcra.wait(debt, cost.get()))
        }
        (None, &[ADMITTED, reset, left]) => {
            Some(CheckReply::admitted(limit.usage(reset, left)?, None))
        }
        (None, &[REFUSED, reset, left, number]) => {
            CheckReply::refused(limit.usage(reset, left)?, wait(number)?)
        }
        _ => None,
    }
}

/// Returns what the reply to a check means, which may have become a lease; `None` if it can't be one.
fn leased(
    limit: &ScriptLimit,
    terms: Option<LeaseTerms>,
    numbers: &[i64],
    cost: Cost,
) -> Option<CheckReply> {
    let of = |permits: i64, taken_at, mark: &i64, delay: i64| {
        let permits = u64::try_from(permits).ok().filter(|permits| *permits >= cost.get())?;
        let delay = Duration::from_micros(u64::try_from(delay).ok()?);
        let terms = terms.filter(|_| permits > cost.get());
        let length = terms.map_or(0, |terms| terms.charged_ahead());
        Some(Charged { permits, taken_at, delay, marks: slice::from_ref(mark).to_vec(), length })
    };
    let (mut reply, rest) = match numbers {
        [ADMITTED, reset, left, permits, taken_at, mark, rest @ ..] => {
            let charged = of(*permits, *taken_at, mark, 0)?;
            (CheckReply::admitted(limit.usage(*reset, *left)?, Some(charged)), rest)
        }
        [REFUSED, reset, left, number, rest @ ..] => {
            (CheckReply::refused(limit.usage(*reset, *left)?, wait(*number)?)?, rest)
        }
        _ => return None,
    };
    reply.ahead = match rest {
        [] => None,
        [permits, taken_at, mark, delay] if *delay > 0 => {
            let ahead = of(*permits, *taken_at, mark, *delay);
            Some(ahead.filter(|ahead| ahead.permits > cost.get())?)
        }
        _ => return None,
    };
    Some(reply)
}
