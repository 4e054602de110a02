//! The service of a process: its layer of rules.

mod client;
mod holding;
mod waiting;

use std::{
    convert::Infallible,
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Request, Response, StatusCode};
use limiter_core::{Algorithm, Cost, Error, Key, Limiter, MemoryLimiter, Policy, Quota};
use limiter_redis::RedisLimiter;
use limiter_tower::{
    RateLimitLayer, Rule,
    key::{ExtensionKey, FixedKey, KeyExtractor, MaybeKey},
    observe::{Event, Outcome as Observed},
    rule::{Keep, Mode, OnStoreFailure, Strike},
};
use tower_layer::Layer;
use tower_service::Service as _;

use self::waiting::{Noted, Notes};
pub(crate) use self::{
    client::{Answer, Client, Ticket, Ticketed},
    holding::{Exports, IN_FLIGHT},
};
use crate::{
    clock::ProcessClock,
    executor::Executor,
    network::{Network, SimClient},
    service_plan::{LOCAL, Outcome, Plan, RULES, SHADOW, SHARED, TENANT, USER},
    vocabulary::{Micros, ProcessId, subject},
    wrong::Wrong,
};

/// The service of a process.
pub(crate) struct Service {
    pub(crate) plan: Arc<Plan>,
    /// Those of [`RULES`], and the one in memory.
    pub(crate) rules: Vec<Rule>,
    pub(crate) local: MemoryLimiter<ProcessClock>,
    /// Its limit on requests in flight.
    pub(crate) exports: Option<Arc<Exports>>,
    layer: RateLimitLayer,
    /// A layer around that one, in a wrong world.
    outer: Option<RateLimitLayer>,
}

/// What runs behind the layer.
#[derive(Clone)]
struct Inner<F>(F);

impl Service {
    /// Returns the service of a process, whose tasks the executor runs.
    pub(crate) fn new(
        plan: &Arc<Plan>,
        limiters: &[RedisLimiter<SimClient>],
        (process, clock): (ProcessId, &ProcessClock),
        (network, executor): (&Network, &Executor),
        deadline: Micros,
        exports: Option<Exports>,
    ) -> Result<Self, Error> {
        let local = MemoryLimiter::builder(plan.local.clone()).clock(clock.clone()).build()?;
        let mut rules = Vec::new();
        let notes = |waiting| Notes::new(process, network, waiting, deadline);
        let notes = plan.waiting.map(notes);
        for (index, limiter) in limiters.iter().enumerate() {
            rules.push(rule(plan, index, limiter, notes.as_ref())?);
        }
        rules.push(Rule::new(local.clone(), FixedKey::new(SHARED)));
        let spawn = |rule: Rule| {
            let executor = executor.clone();
            rule.spawn_by(move |task| executor.spawn(process, task))
        };
        let rules: Vec<Rule> = rules.into_iter().map(spawn).collect();
        let is_wrong = |wrong| plan.wrong == Some(wrong);
        let mut ordered = rules.clone();
        if is_wrong(Wrong::OwnKeyLast) {
            ordered.reverse();
        }
        let outer = match plan.wrong {
            Some(Wrong::ShadowsFirst) => vec![ordered.remove(SHADOW)],
            Some(Wrong::ChargesBeforeWaiting) => {
                let waits = ordered.remove(TENANT);
                std::mem::replace(&mut ordered, vec![waits])
            }
            _ => Vec::new(),
        };
        let strikes = match (&plan.block, limiters.get(USER)) {
            (Some(block), Some(user)) if is_wrong(Wrong::StrikesWhileBlocked) => {
                let within = std::time::Duration::from_micros(block.within);
                let quota = Quota::new(block.strikes, within)?;
                let policy = Policy::new("user-strikes", Algorithm::SlidingLog, quota)?;
                Some(Limiter::sibling(user, &policy)?)
            }
            _ => None,
        };
        let observer = Observer {
            plan: Arc::clone(plan),
            process,
            network: network.clone(),
            executor: executor.clone(),
            strikes,
        };
        let layer = RateLimitLayer::all(ordered).decisions();
        let layer = layer.observe(move |event| observer.observe(event));
        let layer = match &exports {
            Some(exports) => layer.in_flight(exports.rule.clone()),
            None => layer,
        };
        let exports = exports.map(Arc::new);
        let outer = (!outer.is_empty()).then(|| RateLimitLayer::all(outer).decisions());
        Ok(Self { plan: Arc::clone(plan), rules, local, exports, layer, outer })
    }

    /// Calls the service. Behind the layer runs `work`, which returns the status.
    pub(crate) fn call<F, W>(&self, request: Request<()>, work: F) -> Answer
    where
        F: Fn(&Request<()>) -> W + Clone + Send + 'static,
        W: Future<Output = StatusCode> + Send + 'static,
    {
        let mut inner = self.layer.layer(Inner(work));
        let Some(outer) = &self.outer else {
            let response = inner.call(request);
            return Box::pin(async move { status(response.await) });
        };
        let response = outer.layer(inner).call(request);
        Box::pin(async move { status(response.await) })
    }

    /// Returns how many refunds, charges and strikes were not sent, or not with success.
    pub(crate) fn unsent(&self) -> u64 {
        self.rules.iter().map(Rule::unsent).sum()
    }
}

fn status<B>(response: Result<Response<B>, Infallible>) -> StatusCode {
    response.map_or_else(|never| match never {}, |response| response.status())
}

/// Returns a rule whose limiter is in Redis.
fn rule(
    plan: &Plan,
    index: usize,
    limiter: &RedisLimiter<SimClient>,
    notes: Option<&Notes>,
) -> Result<Rule, Error> {
    let limiter = limiter.clone();
    let new = |key: Box<dyn KeyExtractor>| match (plan.waiting(index), notes) {
        (Some(waiting), Some(notes)) => {
            let noted = Noted { inner: limiter.clone(), notes: notes.clone() };
            Rule::waiting(noted, key, waiting.wait())
        }
        _ => Rule::new(limiter.clone(), key),
    };
    let rule = match RULES.get(index) {
        Some(&"user") => {
            let own = ExtensionKey::new(|client: &Client| Key::from(client.user_name()));
            let own: Box<dyn KeyExtractor> = match plan.wrong {
                Some(Wrong::OwnKeyLast) => Box::new(own.or_reject().shared()),
                _ => Box::new(own.or_reject()),
            };
            let on_failure = if plan.denies { OnStoreFailure::Deny } else { OnStoreFailure::Allow };
            let rule = new(own).on_store_failure(on_failure);
            match &plan.block {
                None => rule,
                Some(block) if block.by_refusals => rule.block(block.block())?,
                Some(block) => {
                    let success = match plan.wrong {
                        Some(Wrong::KeepsStrikes) => Strike::Ignore,
                        _ => Strike::Success,
                    };
                    rule.block_by_response(block.block(), move |response| match response.status {
                        StatusCode::OK => success,
                        _ => Strike::Count,
                    })?
                }
            }
        }
        Some(&"tenant") => {
            let shared = ExtensionKey::new(|client: &Client| Key::from(client.tenant_name()));
            let rule = new(Box::new(shared.or_reject().shared())).cost(|head| {
                let client = head.extensions.get::<Client>();
                client.map_or(Cost::ONE, |client| client.cost)
            });
            settled(rule, plan.outcome)
        }
        Some(&"shadow") => new(Box::new(FixedKey::new(SHARED))).with_mode(Mode::SHADOW),
        _ => new(Box::new(FixedKey::new(SHARED))),
    };
    Ok(rule)
}

/// Lets the response decide what a rule charges.
fn settled(rule: Rule, outcome: Outcome) -> Rule {
    match outcome {
        Outcome::Ignored => rule,
        Outcome::GivenBack => rule.settle(|response| match response.status {
            StatusCode::OK => Keep::None,
            _ => Keep::All,
        }),
        Outcome::GivenBackInPart => rule.settle(|response| match response.status {
            StatusCode::OK => Keep::Only(1),
            _ => Keep::All,
        }),
        Outcome::ChargedAfter => rule.charge_after(|response| match response.status {
            StatusCode::OK => None,
            _ => Cost::new(Outcome::AFTERWARDS).ok(),
        }),
    }
}

/// Notes what the rules report.
struct Observer {
    plan: Arc<Plan>,
    process: ProcessId,
    network: Network,
    executor: Executor,
    /// The limiter of strikes, which counts refusals of blocked keys in a wrong world.
    strikes: Option<Arc<dyn Limiter>>,
}

impl Observer {
    fn observe(&self, event: &Event<'_>) {
        let Some(client) = event.head.extensions.get::<Client>() else { return };
        let rule = RULES.iter().position(|name| *name == event.rule).unwrap_or(RULES.len());
        match event.outcome {
            Observed::ErrorAllowed | Observed::ErrorDenied => client.ticket.has_failed(rule),
            Observed::Denied if rule == USER && self.plan.strikes_by_refusals() => {
                let key = subject(USER, client.user);
                self.network.with_records(|records, _| records.auditor.strikes(key));
            }
            Observed::Blocked => {
                client.ticket.is_blocked();
                let (key, asked) = (subject(USER, client.user), client.ticket.asked);
                let slack = BLOCKED_LATE;
                self.network.with_records(|records, moment| {
                    records.service(moment, |auditor| auditor.refuses_blocked(key, asked, slack));
                });
                if let Some(strikes) = &self.strikes {
                    let struck = strikes.check(&client.user_name().into());
                    self.executor.spawn(self.process, async move { drop(struck.await) });
                }
            }
            _ => {}
        }
    }
}

/// How long a cached refusal outlasts the block of its key.
const BLOCKED_LATE: u64 = 1_010_000;

impl<F, W> tower_service::Service<Request<()>> for Inner<F>
where
    F: Fn(&Request<()>) -> W,
    W: Future<Output = StatusCode> + Send + 'static,
{
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<String>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        let work = (self.0)(&request);
        Box::pin(async move {
            let mut response = Response::new(String::new());
            *response.status_mut() = work.await;
            Ok(response)
        })
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.rules.iter().map(Rule::name).filter(|name| *name != LOCAL);
        f.debug_list().entries(names).finish()
    }
}
