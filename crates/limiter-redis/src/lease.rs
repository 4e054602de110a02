//! Leases: permits that a process takes from the store in bulk, and spends in memory.
//!
//! The store charges a lease for its end, and this process spends none of its permits after that, so that all
//! processes together stay within the limit: `docs/decisions/leases.md`.

mod backoff;
mod callers;
mod demand;
mod grant;
mod leased_key;
mod table;

use std::sync::Arc;

use limiter_core::{Cost, Decision, Timestamp};

pub(crate) use self::{
    callers::{Answered, Awaited, Found, Permits},
    grant::Grant,
};
use self::{
    demand::Recent,
    grant::{Reason, Unspent},
    leased_key::LeasedKey,
    table::Table,
};
use crate::{
    call::{
        check::Check,
        queue::Operating,
        refund::{Refund, Token},
        sender::Sender,
    },
    client::ScriptClient,
    context::Context,
    scripts::{LeaseTerms, Plan},
};

/// The leases of a limiter and all its handles. They are given back when it is dropped.
pub(crate) struct Leases<C: ScriptClient> {
    sender: Arc<Sender<C>>,
    context: Arc<Context>,
    table: Table,
    recent: Recent,
}

impl<C: ScriptClient> Leases<C> {
    pub(crate) fn new(sender: &Arc<Sender<C>>, context: &Arc<Context>) -> Self {
        let keys = context.settings.lease_keys;
        Self {
            sender: Arc::clone(sender),
            context: Arc::clone(context),
            table: Table::new(keys, context.settings.hasher()),
            recent: Recent::new(keys),
        }
    }

    /// Spends permits of a lease, or joins or starts a request for one. `spend` gets the decision and the lease.
    /// Returns `None` if the store has to decide.
    pub(crate) fn take<T>(
        self: &Arc<Self>,
        (plan, key, terms): (&Arc<Plan>, &[u8], LeaseTerms),
        cost: Cost,
        now: Timestamp,
        spend: impl FnOnce(Decision, &Arc<Grant>) -> T,
    ) -> Option<Result<T, Found>> {
        let hash = self.table.hash(key);
        let spent = self.table.with((hash, key, plan), |leased| {
            let current = leased.current();
            let Some(grant) = current.as_ref() else { return Err(Some(Arc::clone(leased))) };
            if !grant.is_for(cost) {
                if grant.has_ended(now) {
                    self.sweep_key(leased);
                }
                return Err(None);
            }
            let left = grant.take(cost, now).ok_or_else(|| Some(Arc::clone(leased)))?;
            if grant.gets_low(left) && leased.must_ask_ahead(now) {
                self.start(Arc::clone(leased));
            }
            Ok(spend(grant.admitted(left, now), grant))
        });
        let busy = || self.recent.is_busy(hash, now, terms.length);
        let leased = match spent {
            Some(Ok(spent)) => return Some(Ok(spent)),
            Some(Err(None)) => return None,
            // The call to the store, or the circuit breaker, returns the refusal or the error.
            _ if plan.limits.iter().any(|limit| cost.get() > limit.largest)
                || !self.sender.may_pass(key) =>
            {
                return None;
            }
            Some(Err(Some(leased))) => leased,
            None => {
                let new = (busy()?, now);
                let new = LeasedKey::new((hash, key, plan), &self.context, terms, new);
                let (leased, replaced) = self.table.add(Arc::new(new), now)?;
                if let Some(replaced) = replaced {
                    self.give_back_of(&replaced, Reason::Removal);
                }
                leased
            }
        };
        let context = &self.context;
        let denied = || context.denied(plan, key, cost, now);
        let operating = || self.sender.under_way.begin();
        let found = leased.find((cost, now), busy, denied, operating);
        match found {
            Found::Awaited { must_ask: true, .. } => self.start(leased),
            _ => self.send_unspent(&leased),
        }
        (!matches!(found, Found::Store)).then_some(Err(found))
    }

    /// Asks the store for permits, until nobody waits for more.
    fn start(self: &Arc<Self>, leased: Arc<LeasedKey>) {
        let leases = Arc::clone(self);
        let operating = self.sender.under_way.begin();
        let request =
            InFlight { leased: Arc::clone(&leased), is_over: false, _operating: operating };
        self.sweep_some();
        self.sender.client.spawn(async move {
            let context = &leases.context;
            loop {
                leases.send_unspent(&leased);
                let ask = leased.ask(context.now());
                let (plan, key) = (&leased.plan, leased.key.clone());
                let check = Check::new(&leases.context, plan, key, (ask.cost, ask.wanted));
                let (sender, policy) = (&leases.sender, plan.policy.name());
                let outcome = sender.operate_with_others(&sender.line.checks, policy, check).await;
                let jitter = leases.table.fraction(ask.at);
                if !leased.settle(ask, outcome, (context.now(), jitter)) {
                    leases.send_unspent(&leased);
                    return request.ends();
                }
            }
        });
    }

    /// Notes that a key was charged by a check of its own, so that the last reply to a request for a lease is outdated.
    pub(crate) fn outdates(&self, plan: &Arc<Plan>, key: &[u8]) {
        self.table.with((self.table.hash(key), key, plan), |leased| leased.outdates());
    }

    /// Gives up the leases of a key, which was reset.
    pub(crate) fn forget(&self, key: &[u8]) {
        self.table.remove(key).iter().for_each(|leased| leased.forget(Reason::Reset));
    }

    /// Ends the leases whose time is over, and gives back what is left of them.
    pub(crate) fn sweep(&self) {
        self.table.all().for_each(|leased| self.sweep_key(&leased));
    }

    /// The same for a few keys, so that what is left of a key that nobody checks goes back with requests for others.
    fn sweep_some(&self) {
        self.table.next_line().for_each(|leased| self.sweep_key(&leased));
    }

    fn sweep_key(&self, leased: &LeasedKey) {
        leased.sweep(self.context.now());
        self.send_unspent(leased);
    }

    /// Gives back what was not spent of all leases.
    pub(crate) fn give_back(&self) {
        self.table.all().for_each(|leased| self.give_back_of(&leased, Reason::Drain));
    }

    /// Gives back what was not spent of the leases of a key.
    fn give_back_of(&self, leased: &LeasedKey, reason: Reason) {
        leased.forget(reason);
        self.send_unspent(leased);
    }

    /// Gives back what nobody has spent of leases that have ended.
    fn send_unspent(&self, leased: &LeasedKey) {
        for unspent in leased.take_unspent() {
            self.send_back(leased, unspent);
        }
    }

    fn send_back(&self, leased: &LeasedKey, unspent: Unspent) {
        let Unspent { charged, permits, is_lease } = unspent;
        let (sender, context) = (Arc::clone(&self.sender), Arc::clone(&self.context));
        let (key, plan) = (leased.key.clone(), Arc::clone(&leased.plan));
        let token = Arc::new(Token { limiter: context.id, key, charged, plan });
        // So that the end of a program can wait for it from here on.
        let operating = sender.under_way.begin();
        self.sender.client.spawn(async move {
            let policy = token.plan.policy.name();
            let refund = Refund { context, token: Arc::clone(&token), permits };
            let returned = sender.operate(policy, refund).await.unwrap_or(0).min(permits);
            if is_lease {
                let tally = &sender.events.tally;
                tally.lease_returned.add_many(returned);
                tally.lease_unused.add_many(permits - returned);
            }
            drop(operating);
        });
    }
}

/// A request that is under way. If its task is dropped with its runtime, the next caller starts another one.
struct InFlight {
    leased: Arc<LeasedKey>,
    is_over: bool,
    /// Counts it among the operations under way until what nobody has spent of it goes back.
    _operating: Option<Operating>,
}

impl InFlight {
    fn ends(mut self) {
        self.is_over = true;
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if !self.is_over {
            self.leased.abandon();
        }
    }
}

impl<C: ScriptClient> Drop for Leases<C> {
    fn drop(&mut self) {
        self.give_back();
    }
}
