//! The clients of a service, and what they and the service note.

use std::{future::Future, sync::Arc};

use http::{Request, StatusCode};
use limiter_core::Cost;
use limiter_tower::{
    Rule,
    observe::{Decisions, PolicyDecision},
};

use super::{exports::Export, member::Member};
use crate::{
    auditor::{Admission, Charge},
    fault::Fault,
    random::Random,
    service::{Client, Service, Ticket, Ticketed},
    service_plan::{LOCAL, MAX_COST, Outcome, RULES, SHADOW, TENANT, USER},
    vocabulary::{KEYS, Micros, Subject, subject},
    wrong::Wrong,
};

/// The clients of one service.
pub(crate) struct Clients {
    pub(crate) member: Arc<Member>,
    pub(crate) service: Arc<Service>,
    pub(crate) random: Random,
}

impl Clients {
    /// Makes requests until the traffic is over.
    pub(crate) async fn run(mut self) {
        while !self.member.is_over() {
            let quiet = self.member.fleet.quiet_for(self.member.now());
            let pause = self.random.below(self.member.fleet.longest_pause);
            self.member.sleep(quiet + pause).await;
            for _ in 0..self.random.between(1, 4) {
                if self.member.is_over() {
                    break;
                }
                let key = |random: &mut Random| {
                    usize::try_from(random.below(KEYS.len() as u64)).unwrap_or(0)
                };
                let (user, tenant) = (key(&mut self.random), key(&mut self.random));
                let cost = self.random.between(1, MAX_COST);
                let fails = match self.service.plan.clears_on_success() {
                    // So that there are blocks, too.
                    true => self.random.below(4) > 0,
                    false => self.random.below(2) == 0,
                };
                let mut work = self.random.below(5_000);
                if let Some(holding) = &self.service.plan.holding {
                    work = holding.work(&mut self.random, work);
                }
                let client = self.client((user, tenant), cost, fails, work);
                let leaves = self.member.happens(Fault::CallerLeaves);
                let drops = self.random.happens(self.service.plan.drops) || leaves;
                // A request that is dropped may be charged or not. Without them, it is known when a key has no permits left.
                let drops =
                    drops && (client.ticket.is_over || !self.service.plan.protects_others());
                // Most are dropped while they are decided.
                let random = &mut self.random;
                let patience = drops.then(|| match &self.service.plan.waiting {
                    Some(waiting) => waiting.patience(random),
                    None => random.below(2_000),
                });
                self.request(client, patience).await;
            }
        }
    }

    /// Returns a new request.
    pub(crate) fn client(
        &self,
        (user, tenant): (usize, usize),
        cost: u64,
        fails: bool,
        work: Micros,
    ) -> Client {
        let protects = self.service.plan.protects_others();
        let (asked, is_over) = self.member.with_records(|records, moment| {
            let is_over = protects && records.auditor.is_used_up(subject(USER, user));
            (moment, is_over)
        });
        let ticket = Arc::new(Ticket::new(asked, is_over));
        let cost = Cost::new(cost).unwrap_or(Cost::ONE);
        Client { user, tenant, cost, fails, work, ticket }
    }

    /// Makes a request, and drops it after a time if one is given. Returns whether its key was blocked.
    pub(crate) async fn request(&self, client: Client, patience: Option<Micros>) -> bool {
        let ticket = Arc::clone(&client.ticket);
        let guard = UnderWay { member: Arc::clone(&self.member), client: client.clone() };
        let mut request = Request::new(());
        request.extensions_mut().insert(client);
        let (member, service) = (Arc::clone(&self.member), Arc::clone(&self.service));
        let answer = self.service.call(request, move |request| enter(&member, &service, request));
        let answer = Ticketed { ticket: Arc::clone(&ticket), answer };
        let status = match patience {
            Some(patience) => self.member.wait(answer, patience).await,
            None => Some(answer.await),
        };
        if status.is_some_and(|status| status != StatusCode::OK) {
            // What a refused request was charged has been given back.
            ticket.is_known();
        }
        drop(guard);
        ticket.was_blocked()
    }
}

/// A request whose charges are not known if this is dropped before they are.
struct UnderWay {
    member: Arc<Member>,
    client: Client,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let Client { user, tenant, ticket, .. } = &self.client;
        if ticket.is_settled() {
            return;
        }
        let process = self.member.process;
        if ticket.is_waiting() {
            self.member.with_records(|records, _| records.auditor.waiter_left());
            return;
        }
        self.member.with_records(|records, _| {
            let mut demands = keys(*user, *tenant).map(|key| (key, 1));
            demands[TENANT].1 = MAX_COST;
            records.auditor.request_left(process, demands, ticket.is_over);
        });
    }
}

/// Returns the keys of a request, by their rules.
fn keys(user: usize, tenant: usize) -> [Subject; RULES.len()] {
    [(USER, user), (TENANT, tenant), (2, 0), (SHADOW, 0)].map(|(rule, key)| subject(rule, key))
}

/// Notes that the layer has admitted a request, and serves it.
fn enter(
    member: &Arc<Member>,
    service: &Arc<Service>,
    request: &Request<()>,
) -> impl Future<Output = StatusCode> + Send + use<> {
    let client = request.extensions().get::<Client>().cloned();
    let admission = client.as_ref().and_then(|client| {
        client.ticket.is_known();
        client.ticket.is_admitted();
        admitted(member, service, client, request.extensions().get::<Decisions>())
    });
    let export =
        client.as_ref().and_then(|client| Export::begins(member, service, client, request));
    let (member, service) = (Arc::clone(member), Arc::clone(service));
    async move {
        let Some(client) = client else { return StatusCode::OK };
        match export {
            Some(export) => export.works(client.work).await,
            None if client.work > 0 => member.sleep(client.work).await,
            None => {}
        }
        responds(&member, &service, &client, admission);
        if client.fails { StatusCode::UNAUTHORIZED } else { StatusCode::OK }
    }
}

/// Notes what the rules have charged for a request. Returns what `tenant` has charged, `None` if its store has failed.
fn admitted(
    member: &Member,
    service: &Service,
    client: &Client,
    decisions: Option<&Decisions>,
) -> Option<(Option<Admission>, u64)> {
    let plan = &service.plan;
    let failed = client.ticket.failed();
    let decided = |rule: &Rule| decisions.and_then(|it| it.of(rule)).map(PolicyDecision::decision);
    let mut of_tenant = None;
    member.with_records(|records, moment| {
        records.decisions += 1;
        let subjects = keys(client.user, client.tenant);
        records.service(moment, |auditor| {
            auditor.request_admitted();
            for (index, rule) in service.rules.iter().enumerate() {
                let is_local = rule.name() == LOCAL;
                let key = subjects.get(index).copied().unwrap_or(subject(USER, client.user));
                let has_failed = failed & (1 << index) != 0;
                let Some(decision) = decided(rule) else {
                    if !has_failed && index != SHADOW {
                        auditor.is_uncounted(key, rule.name());
                    }
                    continue;
                };
                if !decision.is_admitted() {
                    if index != SHADOW {
                        auditor.is_uncounted(key, rule.name());
                    }
                    continue;
                }
                if index == USER {
                    auditor.admits_unblocked(key, client.ticket.asked, moment);
                }
                if is_local {
                    auditor.local_charged(member.process, 1);
                    continue;
                }
                let cost = if index == TENANT { client.cost.get() } else { 1 };
                if index == TENANT && plan.outcome == Outcome::ChargedAfter {
                    of_tenant = Some((None, 0));
                    continue;
                }
                let node = auditor.node(key);
                let (asked, now) = (client.ticket.asked.passed(node), moment.passed(node));
                // A waiter sleeps by its own clock, and may be early by the difference of their rates.
                let early = if client.ticket.has_waited() { (now - asked) / 1_000 } else { 0 };
                let within = (asked, now + early);
                let is_bounded = !plan.is_long(index);
                let charge = Charge { subject: key, permits: cost, within, is_bounded };
                let admission = auditor.service_charged(charge);
                if index == TENANT {
                    of_tenant = Some((admission, cost));
                }
            }
        });
    });
    of_tenant
}

/// Notes what a response changes of the charges.
fn responds(
    member: &Member,
    service: &Service,
    client: &Client,
    of_tenant: Option<(Option<Admission>, u64)>,
) {
    let (key, plan) = (subject(TENANT, client.tenant), &service.plan);
    member.with_records(|records, moment| {
        let user = subject(USER, client.user);
        match client.fails {
            true if plan.strikes_by_response() => records.auditor.strikes(user),
            false if plan.clears_on_success() => records.auditor.clears(user),
            _ => {}
        }
        let Some((admission, charged)) = of_tenant else { return };
        if client.fails && plan.outcome == Outcome::ChargedAfter {
            let at = moment.passed(records.auditor.node(key));
            let (permits, within) = (Outcome::AFTERWARDS, (at, at));
            let charge = Charge { subject: key, permits, within, is_bounded: false };
            records.auditor.service_charged(charge);
        }
        let permits = plan.outcome.given_back(charged, client.fails);
        let at = moment.passed(records.auditor.node(key));
        records.auditor.service_refunds(key, admission, permits, at);
    });
    if !client.fails
        && plan.wrong == Some(Wrong::LiftsBlocks)
        && let Some(rule) = service.rules.get(USER)
    {
        let lifted = rule.reset(&client.user_name().into());
        member.network.spawn(member.process, async move { drop(lifted.await) });
    }
}

impl Member {
    /// Returns how many operations were not sent, and how many have an unknown outcome.
    pub(crate) fn unsure(&self) -> (u64, u64) {
        let unknown = self.limiters.iter().map(|limiter| {
            let counters = limiter.counters();
            counters.undetermined + counters.refunds_failed
        });
        let unsent = self.service.as_ref().map_or(0, |service| service.unsent());
        (unsent, unknown.sum())
    }
}
