//! The layer of rates: a list of rules, and how it answers.

use std::{collections::HashMap, fmt, marker::PhantomData, sync::Arc};

use limiter_core::{Error, ErrorKind};
use tower_layer::Layer;

use super::{
    common::{Common, layer_constructors, layer_methods},
    decide::check_demands,
    rates::{AnyBody, Rates, SameBody},
    service::Limited,
};
use crate::{
    key::{KeyExtractor, KeySource},
    rule::{Rule, check_slots},
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
pub struct RateLimitLayer<M = SameBody> {
    common: Arc<Common<Rule>>,
    body: PhantomData<fn() -> M>,
}

impl RateLimitLayer {
    layer_constructors!(Rule, Limiter);

    /// Returns a layer with several rules, for those from a file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`], [`ErrorKind::InvalidName`] or [`ErrorKind::InvalidQuota`]:
    ///
    /// - If there is no rule, or more than 16 whose keys skip no request; a rule with a [block](Rule::block) counts as
    ///   three. A request that meets more than 16 is rejected with 500.
    /// - If two rules have a policy or a limit of the same name: header fields and metrics identify them by name. A rule
    ///   with a [block](Rule::block) also takes the names of the block's states, such as `login-block`.
    /// - If two rules count by the states of one limiter.
    /// - If two rules [wait](Rule::waiting), or one waits and [charges after the response](Rule::charge_after).
    /// - If a rule counts requests by a key that clients [choose](KeySource::Chosen), such as an unverified
    ///   [`HeaderKey`](crate::key::HeaderKey), and no rule with a key of the client's [own](KeySource::Own) counts all
    ///   requests and is enforced for as many keys. A rule that [settles](Rule::settle) or
    ///   [charges after](Rule::charge_after) the response counts only for one that does so too.
    /// - If a key is a secret, and the rule's limiter can't hide it from its store.
    /// - If a limit has paced slots of less than two seconds, and fewer permits than slots.
    /// - If a rule [blocks](Rule::block) keys that many clients share, or that a client can choose freely: one client could
    ///   block others.
    pub fn try_all(rules: impl IntoIterator<Item = Rule>) -> Result<Self, Error> {
        let mut rules: Box<[Rule]> = rules.into_iter().collect();
        check(&rules)?;
        for rule in &rules {
            rule.meet(rules.iter().filter(|other| !other.is(rule)));
        }
        rules.sort_by_key(|rule| (rule.settings.wait.is_some(), rule.spec().source().order()));
        Ok(Self { common: Arc::new(Common::new(rules)), body: PhantomData })
    }

    /// Makes the body of the responses `Either<B, Full<Bytes>>`, of `http-body-util`, if `B` is the inner service's: for
    /// inner bodies that can't be that of a refusal, such as those of `tower-http`'s `ServeDir` and `CompressionLayer`, or
    /// hyper's `Incoming`. See [`FromRefusal`](crate::service::FromRefusal).
    #[must_use]
    pub fn any_body(self) -> RateLimitLayer<AnyBody> {
        RateLimitLayer { common: self.common, body: PhantomData }
    }
}

impl<M> RateLimitLayer<M> {
    layer_methods!(Rule);

    /// Inserts a [`Charge`](crate::settle::Charge) into the extensions of requests, for handlers that settle what the
    /// rules have charged.
    #[must_use]
    pub fn chargeable(self) -> Self {
        self.with(|common| common.is_chargeable = true)
    }
}

impl<S, M> Layer<S> for RateLimitLayer<M> {
    type Service = Limited<S, Rates<M>>;

    fn layer(&self, inner: S) -> Self::Service {
        Limited::new(inner, Rates::new(&self.common))
    }
}

impl<M> Clone for RateLimitLayer<M> {
    fn clone(&self) -> Self {
        Self { common: Arc::clone(&self.common), body: PhantomData }
    }
}

/// As [`RateLimitLayer::all`] with this rule.
impl From<Rule> for RateLimitLayer {
    #[track_caller]
    fn from(rule: Rule) -> Self {
        Self::all([rule])
    }
}

/// Returns an error unless a layer can have these rules.
fn check(rules: &[Rule]) -> Result<(), Error> {
    let invalid = |fault: String| Err(Error::new(ErrorKind::InvalidSetting, fault));
    if rules.is_empty() {
        return invalid("the layer has no rules: give it at least one".to_owned());
    }
    check_demands(rules.iter().filter(|rule| !rule.spec().key.skips()))?;
    let waiting = rules.iter().filter(|rule| rule.settings.wait.is_some()).count();
    if waiting > 1 {
        return invalid(format!("{waiting} of the layer's rules wait: at most one can"));
    }
    let mut names = HashMap::new();
    for (place, rule) in rules.iter().enumerate() {
        for name in rule.names() {
            if *names.entry(name.clone()).or_insert(place) != place {
                let fault = format!("two rules have a policy or limit named {name:?}; rename one");
                return Err(Error::new(ErrorKind::InvalidName, fault));
            }
        }
        let id = |rule: &Rule| rule.fixed_plan().limiter().id();
        let others = rules.get(..place).unwrap_or_default();
        if let Some(other) = others.iter().find(|other| id(other) == id(rule)) {
            let names = [other.name(), rule.name()];
            return invalid(format!(
                "the rules {names:?} count by the states of one limiter: make another one, such as by `sibling`"
            ));
        }
        let is_of_one_client = matches!(rule.spec().source(), KeySource::Own | KeySource::Partly);
        if rule.settings.block.is_some() && !is_of_one_client {
            return invalid(format!(
                "the rule {:?} blocks a key that is not the client's own, so one client could block others: count by a \
                 key with the address or a verified identity in it",
                rule.name()
            ));
        }
        if rule.settings.wait.is_some() && rule.settings.charge_after.is_some() {
            return invalid(format!(
                "the rule {:?} waits and charges after the response, but a request that waits takes its permits: use `settle`",
                rule.name()
            ));
        }
        // What gives back the charges of a flood does not bound it, unless the other rule does the same.
        let counts = |other: &&Rule| !other.settings.gives_back() || rule.settings.gives_back();
        rule.spec().check_bounds(rules.iter().filter(counts).map(Rule::spec))?;
        check_slots(&rule.policy())?;
        let plan = rule.fixed_plan();
        rule.spec().check_secret(plan.limiter().store(), |key| plan.limiter().check(key))?;
    }
    Ok(())
}

impl<M> fmt::Debug for RateLimitLayer<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.common.fmt_as("RateLimitLayer", f)
    }
}
