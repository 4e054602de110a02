//! The layer and its configuration.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use http::Response;
use limiter_core::{Cost, Limiter, WaitingLimiter};
use tower_layer::Layer;

use crate::{
    OnMissing,
    config::Config,
    handle::Handle,
    headers::Headers,
    key::{Head, KeyExtractor},
    observe::Event,
    plan::Plan,
    refusal::{GrpcStatus, Refusal},
    rule::{Disclosure, LiveMode, Mode, OnStoreFailure, Rule, Wait},
    service::RateLimit,
    settle::{Keep, ResponseHead},
};

/// Limits the requests to a service.
///
/// A layer has one or more rules. Each has a limiter, a key under which requests are counted, and a
/// choice for requests without a key. All clones, and all services that they make, share the
/// limiters' states.
///
/// ```
/// use limiter_core::{MemoryLimiter, Policy, Quota};
/// use limiter_tower::{ClientIp, OnMissing, RateLimitLayer};
///
/// let limiter = MemoryLimiter::new(Policy::gcra("api", Quota::per_second(50)));
/// let layer = RateLimitLayer::new(limiter, ClientIp::peer(), OnMissing::Reject);
/// ```
///
/// # Several rules
///
/// [`and`](Self::and) adds a rule. The rules are asked in order, so put the narrowest first. A
/// request is admitted if all rules admit it. If a rule refuses it or fails, the charges of the rules
/// before it are refunded. So no limit is ever exceeded, but the rules are not one atomic step: until the
/// refund is applied, other requests may be refused. If the client goes away, charges stay, so that
/// requests which are reset at once are limited too.
///
/// A refusal reports the rule that refused. Its `Retry-After` is the longest wait among that rule and
/// those after it whose limiters know it without a call to a store, and so is that of its decision. Each
/// rule is a call of its own, one round trip each with a store. Limits for the *same* key are one atomic step with `Policy::all_of`.
///
/// # Configuration
///
/// These methods configure the rule that was added last: [`policy`](Self::policy),
/// [`cost`](Self::cost), [`mode`](Self::mode), [`disclose`](Self::disclose) and
/// [`on_store_failure`](Self::on_store_failure). The others configure the layer. Configuring a clone
/// does not change the original.
#[derive(Clone)]
pub struct RateLimitLayer {
    config: Arc<Config>,
}

impl RateLimitLayer {
    /// Returns a layer with one rule, which counts requests under `key`.
    pub fn new(
        limiter: impl Limiter + 'static,
        key: impl KeyExtractor + 'static,
        missing: OnMissing,
    ) -> Self {
        Self::of(Rule::new(Plan::new(limiter), Arc::new(key), missing, None))
    }

    /// Returns a layer with one rule, which delays requests within the bounds of `wait` and refuses
    /// the others.
    pub fn waiting(
        limiter: impl WaitingLimiter + 'static,
        key: impl KeyExtractor + 'static,
        missing: OnMissing,
        wait: Wait,
    ) -> Self {
        Self::of(Rule::new(Plan::waiting(limiter), Arc::new(key), missing, Some(wait)))
    }

    fn of(rule: Rule) -> Self {
        Self { config: Arc::new(Config::new(rule)) }
    }

    /// Adds a rule, which is asked after the others.
    ///
    /// # Panics
    ///
    /// If the policy, or one of its limits, has the name of another rule's: header fields, metrics and
    /// the [`Handle`] identify rules by name.
    #[must_use]
    pub fn and(
        self,
        limiter: impl Limiter + 'static,
        key: impl KeyExtractor + 'static,
        missing: OnMissing,
    ) -> Self {
        self.and_rule(Rule::new(Plan::new(limiter), Arc::new(key), missing, None))
    }

    /// Adds a rule that delays requests, as [`waiting`](Self::waiting) does.
    ///
    /// # Panics
    ///
    /// As [`and`](Self::and).
    #[must_use]
    pub fn and_waiting(
        self,
        limiter: impl WaitingLimiter + 'static,
        key: impl KeyExtractor + 'static,
        missing: OnMissing,
        wait: Wait,
    ) -> Self {
        self.and_rule(Rule::new(Plan::waiting(limiter), Arc::new(key), missing, Some(wait)))
    }

    fn and_rule(self, rule: Rule) -> Self {
        let taken = self.config.taken_name(rule.plan.get().policy(), None);
        let name = taken.as_deref().unwrap_or_default();
        assert!(taken.is_none(), "two rules have a policy or limit named {name:?}; rename one");
        self.with(|config| config.rules.push(rule))
    }

    /// Sets the policy of each request: `select` returns it, or `None` for the rule's own.
    ///
    /// [`Plans`](crate::plan::Plans) selects by tier, route or method. The returned plans should be
    /// prepared beforehand and share the limiter's states. A rule that delays requests refuses those whose plan
    /// can't wait.
    #[must_use]
    pub fn policy(self, select: impl Fn(Head<'_>) -> Option<Plan> + Send + Sync + 'static) -> Self {
        self.with_rule(|rule| rule.select = Some(Arc::new(select)))
    }

    /// Sets the cost of each request. The default is one permit.
    ///
    /// A cost above the burst, as that of a large batch or a deep GraphQL query, never fits: the refusal
    /// has no `Retry-After` and says so. Cap the cost at the burst if such a request should be served.
    ///
    /// ```
    /// # use limiter_core::{MemoryLimiter, Policy, Quota};
    /// # use limiter_tower::{ClientIp, OnMissing, RateLimitLayer};
    /// use limiter_core::Cost;
    ///
    /// # let limiter = MemoryLimiter::new(Policy::gcra("api", Quota::per_minute(100)));
    /// const EXPORT: Cost = Cost::of(10);
    /// let layer = RateLimitLayer::new(limiter, ClientIp::peer(), OnMissing::Reject)
    ///     .cost(|head| if head.path() == "/export" { EXPORT } else { Cost::ONE });
    /// ```
    #[must_use]
    pub fn cost(self, cost: impl Fn(Head<'_>) -> Cost + Send + Sync + 'static) -> Self {
        self.with_rule(|rule| rule.cost = Some(Arc::new(cost)))
    }

    /// Sets for which keys the rule is enforced. The default is all.
    #[must_use]
    pub fn mode(self, mode: Mode) -> Self {
        self.with_rule(|rule| rule.mode = LiveMode::new(mode))
    }

    /// Sets how much of the rule's decisions clients see. The default is all.
    #[must_use]
    pub fn disclose(self, disclosure: Disclosure) -> Self {
        self.with_rule(|rule| rule.disclosure = disclosure)
    }

    /// Sets what follows while the limiter's store fails. The default is to forward requests.
    #[must_use]
    pub fn on_store_failure(self, choice: OnStoreFailure) -> Self {
        self.with_rule(|rule| rule.on_store_failure = choice)
    }

    /// Forwards requests for which `skip` returns true, without counting them.
    ///
    /// ```
    /// # use limiter_core::{MemoryLimiter, Policy, Quota};
    /// # use limiter_tower::{ClientIp, OnMissing, RateLimitLayer};
    /// # let limiter = MemoryLimiter::new(Policy::gcra("api", Quota::per_minute(100)));
    /// let layer = RateLimitLayer::new(limiter, ClientIp::peer(), OnMissing::Reject)
    ///     .skip(|head| head.path() == "/health" || head.is_preflight());
    /// ```
    #[must_use]
    pub fn skip(self, skip: impl Fn(Head<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.with(|config| config.skip = Some(Arc::new(skip)))
    }

    /// Settles each charge when the inner service has responded: `settle` returns how much is kept.
    ///
    /// Each request is charged in full first, and its header fields report what is left after the
    /// settlement. So requests at the same moment need room for all of them: of 20 correct logins at once
    /// under 5/min, 15 are refused, although none of them is charged in the end. Choose a burst for the
    /// requests that a key may have in flight. Without a response, because the inner service failed,
    /// panicked or the client went away, the full charge stays.
    ///
    /// ```
    /// # use limiter_core::{MemoryLimiter, Policy, Quota};
    /// # use limiter_tower::{ClientIp, OnMissing, RateLimitLayer};
    /// use limiter_tower::settle::Keep;
    ///
    /// # let limiter = MemoryLimiter::new(Policy::gcra("login", Quota::per_minute(5)));
    /// // Only failed logins count.
    /// let layer = RateLimitLayer::new(limiter, ClientIp::peer(), OnMissing::Reject)
    ///     .settle(|response| if response.status == 401 { Keep::All } else { Keep::None });
    /// ```
    #[must_use]
    pub fn settle(self, settle: impl Fn(ResponseHead<'_>) -> Keep + Send + Sync + 'static) -> Self {
        self.with(|config| config.settle = Some(Arc::new(settle)))
    }

    /// Inserts a [`Charge`](crate::settle::Charge) into the extensions of admitted requests, for handlers
    /// that settle it themselves. [`settle`](Self::settle) does this, too.
    #[must_use]
    pub fn chargeable(self) -> Self {
        self.with(|config| config.is_chargeable = true)
    }

    /// Sets the response to requests that are not admitted, for HTTP clients. The default is
    /// [`text`](crate::refusal::text); another one is [`problem_json`](crate::refusal::problem_json).
    ///
    /// The layer adds `Cache-Control: no-store` and `Retry-After`, unless the response has them, and
    /// the fields of [`headers`](Self::headers). gRPC clients receive a gRPC status instead.
    ///
    /// ```
    /// use limiter_tower::{ClientIp, OnMissing, RateLimitLayer};
    /// # use limiter_tower::{MemoryLimiter, Policy, Quota};
    /// # let limiter = MemoryLimiter::new(Policy::gcra("api", Quota::per_second(1)));
    ///
    /// let layer = RateLimitLayer::new(limiter, ClientIp::peer(), OnMissing::Reject)
    ///     .refuse_with(|refusal| {
    ///         let mut response = http::Response::new("slow down\n".into());
    ///         *response.status_mut() = refusal.status();
    ///         response
    ///     });
    /// ```
    #[must_use]
    pub fn refuse_with(
        self,
        refuse: impl Fn(&Refusal<'_>) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.with(|config| config.refuse = Arc::new(refuse))
    }

    /// Sets which header fields report the decisions.
    #[must_use]
    pub fn headers(self, headers: Headers) -> Self {
        self.with(|config| config.headers = headers)
    }

    /// Sets the status that gRPC clients receive when a limit refuses their call.
    #[must_use]
    pub fn grpc_status(self, status: GrpcStatus) -> Self {
        self.with(|config| config.grpc_status = status)
    }

    /// Inserts [`Decisions`](crate::observe::Decisions) into the extensions of requests and responses,
    /// which costs a few allocations a request (`cargo xtask bench layer`).
    #[must_use]
    pub fn decisions(self) -> Self {
        self.with(|config| config.has_decisions = true)
    }

    /// Calls `observer` with what each rule did with each request, in place of an earlier observer. It
    /// is called on the request's path, so it must not block.
    #[must_use]
    pub fn observe(self, observer: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        self.with(|config| config.observer = Some(Arc::new(observer)))
    }

    /// Ends the configuration. Returns the layer, and a handle that changes it while requests are
    /// served.
    ///
    /// # Panics
    ///
    /// If a rule counts requests by a key that clients choose, such as an unverified
    /// [`HeaderKey`](crate::key::HeaderKey), and no other rule without
    /// [`OnMissing::Allow`] is enforced for as many keys.
    #[must_use]
    pub fn build(self) -> (BuiltLayer, Handle) {
        assert!(
            self.config.has_enough_keys(|rule| rule.mode.get()),
            "a client can choose its key, so it has any number of allowances: add a rule by address \
             with `and`, enforced and without `OnMissing::Allow`, or call `verified` on the key if an \
             outer layer verifies it"
        );
        let handle = Handle::new(Arc::clone(&self.config));
        (BuiltLayer { config: self.config }, handle)
    }

    fn with(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(Arc::make_mut(&mut self.config));
        self
    }

    /// Changes the rule that was added last.
    fn with_rule(self, change: impl FnOnce(&mut Rule)) -> Self {
        self.with(|config| {
            if let Some(rule) = config.rules.last_mut() {
                change(rule);
            }
        })
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    /// Returns the limited service.
    ///
    /// # Panics
    ///
    /// As [`build`](RateLimitLayer::build).
    fn layer(&self, inner: S) -> RateLimit<S> {
        self.clone().build().0.layer(inner)
    }
}

impl fmt::Debug for RateLimitLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.config.fmt(f)
    }
}

/// A layer whose configuration has ended: see [`RateLimitLayer::build`].
#[derive(Clone)]
pub struct BuiltLayer {
    config: Arc<Config>,
}

impl<S> Layer<S> for BuiltLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        RateLimit::new(inner, Arc::clone(&self.config))
    }
}

impl fmt::Debug for BuiltLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.config.fmt(f)
    }
}
