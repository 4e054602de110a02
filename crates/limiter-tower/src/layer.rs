//! The layer: a list of rules, and how it answers.

use std::{collections::HashMap, fmt, sync::Arc};

use bytes::Bytes;
use http::Response;
use limiter_core::{Limit, Limiter};
use tower_layer::Layer;

use crate::{
    config::Config,
    headers::Headers,
    in_flight::{InFlightEvent, InFlightRule, ObserveFn},
    key::{Head, KeyExtractor, KeySource},
    observe::Event,
    refusal::{GrpcStatus, Refusal},
    report::Observer,
    rule::{Mode, Rule},
    service::RateLimit,
};

/// Limits the requests to a service.
///
/// A layer is a list of [rules](Rule), and how it answers. All clones, and all services that they make, share the rules.
///
/// ```
/// use limiter_core::{MemoryLimiter, Policy, Quota};
/// use limiter_tower::{ClientIp, RateLimitLayer};
///
/// let limiter = MemoryLimiter::new(Policy::gcra("api", Quota::per_second(50)));
/// let layer = RateLimitLayer::new(limiter, ClientIp::peer());
/// ```
///
/// # Several rules
///
/// The rules are one decision: a request is charged by all of them, or by none. A refusal has the longest wait of those
/// that refuse, and names each of them. The order of the list never changes the outcome.
///
/// ```
/// # use limiter_core::{MemoryLimiter, Policy, Quota};
/// use limiter_tower::{RateLimitLayer, Rule, key::{ExtensionKey, FixedKey, MaybeKey}};
///
/// #[derive(Clone)]
/// struct User {
///     id: u64,
///     organisation: u64,
/// }
///
/// # let limiter = |name, permits| MemoryLimiter::new(Policy::gcra(name, Quota::per_minute(permits)));
/// let (users, organisations, service) = (limiter("user", 60), limiter("org", 600), limiter("all", 9_000));
/// let layer = RateLimitLayer::all([
///     Rule::new(users, ExtensionKey::new(|user: &User| user.id.into()).or_reject()),
///     Rule::new(organisations, ExtensionKey::new(|user: &User| user.organisation.into()).or_skip()),
///     Rule::new(service, FixedKey::new("all")),
/// ]);
/// ```
///
/// Limiters in Redis that are [siblings](limiter_core::Limiter::sibling) are one call, as far as their keys are in one
/// slot. With several stores or slots, the rules are asked in turn: the client's own key first, then keys that it chooses, then keys that it shares; what was charged before a
/// refusal is given back. See [`decide`](limiter_core::decide).
///
/// # While requests are served
///
/// A clone of the layer switches it off and on, and clones of its rules change policies and modes.
#[derive(Clone)]
pub struct RateLimitLayer {
    config: Arc<Config>,
}

impl RateLimitLayer {
    /// Returns a layer with one rule, which counts requests under `key`.
    ///
    /// # Panics
    ///
    /// As [`all`](Self::all).
    #[track_caller]
    pub fn new(limiter: impl Limiter + 'static, key: impl KeyExtractor + 'static) -> Self {
        Self::all([Rule::new(limiter, key)])
    }

    /// Returns a layer with several rules.
    ///
    /// # Panics
    ///
    /// - If there is no rule, or more than 16; a rule with a [block](Rule::block) counts as three.
    /// - If two rules have a policy or a limit of the same name: header fields and metrics identify them by name. A rule
    ///   with a [block](Rule::block) also takes the names of the block's states, such as `login-block`.
    /// - If two rules [wait](Rule::waiting).
    /// - If a rule counts requests by a key that clients [choose](KeySource::Chosen), such as an unverified
    ///   [`HeaderKey`](crate::key::HeaderKey), and no rule with another key counts all requests and is enforced for as
    ///   many keys.
    #[must_use]
    #[track_caller]
    pub fn all(rules: impl IntoIterator<Item = Rule>) -> Self {
        let mut rules: Box<[Rule]> = rules.into_iter().collect();
        check(&rules);
        rules.sort_by_key(|rule| (rule.settings.wait.is_some(), order(rule.source())));
        Self { config: Arc::new(Config::new(rules)) }
    }

    /// Adds a limit on how many requests are in flight at once.
    ///
    /// A request takes its permits last: a rate that refuses takes none, and a full limit leaves no rate charged. It gives
    /// them back first, when the response's body has ended or was dropped. A limit in memory is asked for room before the rates are charged; one
    /// through a store is called once, after them, and what they have charged is refunded if it is full. A handler that goes on
    /// after the response finds a [`RequestPermit`](crate::in_flight::RequestPermit) in the request's extensions.
    ///
    /// ```
    /// use limiter_tower::{ClientIp, InFlight, InFlightRule, RateLimitLayer};
    /// # use limiter_tower::{MemoryLimiter, Policy, Quota};
    /// # let api = MemoryLimiter::new(Policy::gcra("api", Quota::per_minute(100)));
    ///
    /// let uploads = InFlightRule::new(InFlight::new("uploads", 3)?, ClientIp::peer());
    /// let layer = RateLimitLayer::new(api, ClientIp::peer()).in_flight(uploads);
    /// # Ok::<(), limiter_core::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// - If another rule of the layer has this name, or a policy or a limit of it.
    /// - If clients [choose](KeySource::Chosen) the rule's key, and the layer has no rule, of either kind, with another key
    ///   that counts all requests and is enforced for as many keys: add that one first.
    #[must_use]
    #[track_caller]
    pub fn in_flight(self, rule: InFlightRule) -> Self {
        check_in_flight(&self.config, &rule);
        self.with(|config| {
            config.in_flight.push(rule.in_layer(config.in_flight_observer.clone()));
            config.in_flight.sort_by_key(|rule| order(rule.source()));
        })
    }

    /// Returns a layer with a limit on requests in flight, and no rate. [`in_flight`](Self::in_flight) adds others.
    ///
    /// # Panics
    ///
    /// As [`in_flight`](Self::in_flight).
    #[must_use]
    #[track_caller]
    pub fn only_in_flight(rule: InFlightRule) -> Self {
        Self { config: Arc::new(Config::new(Box::default())) }.in_flight(rule)
    }

    /// Forwards requests for which `skip` returns true, without counting them.
    ///
    /// ```
    /// # use limiter_core::{MemoryLimiter, Policy, Quota};
    /// # use limiter_tower::{ClientIp, RateLimitLayer};
    /// # let limiter = MemoryLimiter::new(Policy::gcra("api", Quota::per_minute(100)));
    /// let layer = RateLimitLayer::new(limiter, ClientIp::peer()).skip(|head| head.path() == "/health");
    /// ```
    #[must_use]
    pub fn skip(self, skip: impl Fn(Head<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.with(|config| config.skip = Some(Arc::new(skip)))
    }

    /// Sets the response to requests that are not admitted, for HTTP clients. The default is
    /// [`text`](crate::refusal::text); another one is [`problem_json`](crate::refusal::problem_json).
    ///
    /// The layer adds `Cache-Control: no-store` and `Retry-After`, unless the response has them, and
    /// the fields of [`headers`](Self::headers).
    ///
    /// ```
    /// use limiter_tower::{ClientIp, RateLimitLayer};
    /// # use limiter_tower::{MemoryLimiter, Policy, Quota};
    /// # let limiter = MemoryLimiter::new(Policy::gcra("api", Quota::per_second(1)));
    ///
    /// let layer = RateLimitLayer::new(limiter, ClientIp::peer()).refuse_with(|refusal| {
    ///     let mut response = http::Response::new("slow down\n".into());
    ///     *response.status_mut() = refusal.status();
    ///     response
    /// });
    /// ```
    #[must_use]
    pub fn refuse_with(
        self,
        refuse: impl Fn(&Refusal<'_>) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.with(|config| config.answers.refuse = Arc::new(refuse))
    }

    /// Sets which header fields report the decisions.
    #[must_use]
    pub fn headers(self, headers: Headers) -> Self {
        self.with(|config| config.answers.headers = headers)
    }

    /// Answers requests of gRPC and gRPC-Web clients, by their content type, with a gRPC status.
    ///
    /// Without it all refusals are HTTP, because any client can send gRPC's content type, and a refusal by gRPC has the
    /// HTTP status 200, which firewalls and access logs take for a success.
    #[must_use]
    pub fn grpc(self) -> Self {
        self.grpc_status(GrpcStatus::default())
    }

    /// As [`grpc`](Self::grpc), with another status for calls that a limit refuses.
    #[must_use]
    pub fn grpc_status(self, status: GrpcStatus) -> Self {
        self.with(|config| config.answers.grpc = Some(status))
    }

    /// Inserts [`Decisions`](crate::observe::Decisions) into the extensions of requests and responses,
    /// which costs a few allocations a request (`cargo xtask bench layer`).
    #[must_use]
    pub fn decisions(self) -> Self {
        self.with(|config| config.has_decisions = true)
    }

    /// Inserts a [`Charge`](crate::settle::Charge) into the extensions of requests, for handlers that settle what the
    /// rules have charged.
    #[must_use]
    pub fn chargeable(self) -> Self {
        self.with(|config| config.is_chargeable = true)
    }

    /// Calls `observer` with what each rule did with each request, in place of an earlier observer. It
    /// is called on the request's path, so it must not block. [`observe_in_flight`](Self::observe_in_flight) is for limits
    /// on requests in flight, because permits have events after the request.
    #[must_use]
    pub fn observe(self, observer: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        self.with(|config| config.observer = Observer(Some(Arc::new(observer))))
    }

    /// Calls `observer` with what each limit on requests in flight did with each request and with what becomes of the
    /// permits, in place of an earlier observer of the layer. A rule's [own observer](InFlightRule::observe) is called as
    /// well. It is called on the request's path and when permits are dropped, so it must neither block nor panic.
    #[must_use]
    pub fn observe_in_flight(
        self,
        observer: impl Fn(&InFlightEvent<'_>) + Send + Sync + 'static,
    ) -> Self {
        let observer: ObserveFn = Arc::new(observer);
        self.with(|config| {
            for rule in &mut config.in_flight {
                *rule = rule.clone().in_layer(Some(Arc::clone(&observer)));
            }
            config.in_flight_observer = Some(observer);
        })
    }

    /// Returns the rules, in the order in which they are asked.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.config.rules
    }

    /// Returns the limits on requests in flight, in the order in which they are asked.
    #[must_use]
    pub fn in_flight_rules(&self) -> &[InFlightRule] {
        &self.config.in_flight
    }

    /// Forwards all requests from now on, without counting them, in all clones. Requests that wait already are not
    /// released.
    pub fn switch_off(&self) {
        self.config.is_off.set(true);
    }

    /// Limits requests again after [`switch_off`](Self::switch_off).
    pub fn switch_on(&self) {
        self.config.is_off.set(false);
    }

    /// Returns whether requests are limited.
    #[must_use]
    pub fn is_on(&self) -> bool {
        !self.config.is_off.get()
    }

    fn with(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(Arc::make_mut(&mut self.config));
        self
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        RateLimit::new(inner, Arc::clone(&self.config))
    }
}

/// Panics unless a layer can have these rules.
#[track_caller]
fn check(rules: &[Rule]) {
    assert!(!rules.is_empty(), "a layer needs at least one rule");
    let demands = rules.iter().map(|rule| if rule.settings.block.is_some() { 3 } else { 1 });
    let demands: usize = demands.sum();
    assert!(
        demands <= MAX_DEMANDS,
        "the rules of a layer have {demands} demands, of which a rule with a block has three; at most {MAX_DEMANDS} are possible"
    );
    let waiting = rules.iter().filter(|rule| rule.settings.wait.is_some()).count();
    assert!(waiting <= 1, "{waiting} rules wait; a layer has at most one");
    let mut names = HashMap::new();
    for (place, rule) in rules.iter().enumerate() {
        for name in names_of(rule) {
            let other = *names.entry(name.clone()).or_insert(place);
            assert!(other == place, "two rules have a policy or limit named {name:?}; rename one");
        }
    }
    let (chosen, others): (Vec<_>, Vec<_>) =
        rules.iter().partition(|rule| rule.source() == KeySource::Chosen);
    let enforced = |rule: &Rule| rule.mode().percent();
    let names: Vec<_> = chosen.iter().map(|rule| rule.name()).collect();
    let most_chosen = chosen.into_iter().map(enforced).max();
    let others = others.into_iter().filter(|rule| !rule.skips());
    assert!(
        most_chosen <= others.map(enforced).max(),
        "a client can choose its key by the rules {names:?}, so it has any number of allowances: add a rule by \
         address, enforced for as many keys, or call `verified` on the key if an outer layer verifies it"
    );
}

/// Returns the names that a rule takes: of its policy, of the policy's limits, and of the states of its block.
fn names_of(rule: &Rule) -> Vec<String> {
    let policy = rule.policy();
    let limits = policy.limits().iter().map(Limit::name);
    let own = limits.chain([policy.name(), rule.name()]).map(str::to_owned);
    let parts = rule.settings.block.as_ref().map(|_| ["strikes", "levels", "block"]);
    let of_block = parts.into_iter().flatten().map(|part| format!("{}-{part}", rule.name()));
    own.chain(of_block).collect()
}

/// Panics unless the layer can have this rule as well.
#[track_caller]
fn check_in_flight(config: &Config, rule: &InFlightRule) {
    let Config { rules, in_flight, .. } = config;
    let name = rule.name();
    let is_taken = rules.iter().flat_map(names_of).any(|other| other == name)
        || in_flight.iter().any(|other| other.name() == name);
    assert!(!is_taken, "two rules have a policy or limit named {name:?}; rename one");
    let enforced = rule.mode().percent();
    let bounds = |source, skips: bool, mode: Mode| {
        source != KeySource::Chosen && !skips && mode.percent() >= enforced
    };
    assert!(
        rule.source() != KeySource::Chosen
            || rules.iter().any(|it| bounds(it.source(), it.skips(), it.mode()))
            || in_flight.iter().any(|it| bounds(it.source(), it.skips(), it.mode())),
        "a client can choose its key by the rule {name:?}, so it has any number of allowances: first add a rule by \
         address, enforced for as many keys, or call `verified` on the key if an outer layer verifies it"
    );
}

/// Returns the place of a rule among those that are asked: the client's own keys first.
const fn order(source: KeySource) -> u8 {
    match source {
        KeySource::Own => 0,
        KeySource::Chosen => 1,
        KeySource::Shared => 2,
    }
}

/// The most demands of one decision.
const MAX_DEMANDS: usize = 16;

impl fmt::Debug for RateLimitLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.config.fmt(f)
    }
}
