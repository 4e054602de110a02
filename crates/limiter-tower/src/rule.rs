//! One rule: a limiter, a key, and what follows from its decisions.

mod choices;
mod fast;
mod live;
mod methods;
mod mode;
mod operate;
mod request;
mod settings;
mod spec;

use std::{borrow::Cow, fmt, sync::Arc};

pub use limiter_core::OnStoreFailure;
use limiter_core::{Block, Blocks, Cost, Error, Limiter, WaitingLimiter};

pub use self::{
    choices::{Disclosure, Keep, Strike},
    mode::Mode,
};
pub(crate) use self::{
    fast::at_once,
    live::{Flag, Live},
    methods::{LayerRule, rule_methods},
    operate::check_slots,
    settings::Blocking,
    spec::{ObserveFn, OnError, Spec},
};
use self::{
    fast::{Check, Typed},
    settings::{Select, Settings, Shared, StrikeFn},
};
pub use crate::wait::Wait;
use crate::{
    head::ResponseHead,
    key::{Head, KeyExtractor},
    plan::Plan,
};

/// A limiter, the key under which it counts requests, and what follows from its decisions.
///
/// A rule is a value. A [`RateLimitLayer`](crate::RateLimitLayer) asks it about each request, and a handler, a WebSocket
/// or a queue consumer [asks](Self::ask) it itself. Clones are one rule: they share its states, policy, mode and metrics,
/// so a clone in a service's state changes and inspects the rule of a layer.
///
/// ```
/// use limiter_core::{Cost, MemoryLimiter, Policy, Quota};
/// use limiter_tower::{ClientIp, RateLimitLayer, Rule, rule::Mode};
///
/// let limiter = MemoryLimiter::new(Policy::gcra("api", Quota::per_minute(10)));
/// const POST: Cost = Cost::of(5);
/// let rule = Rule::new(limiter, ClientIp::peer())
///     .cost(|head| if head.method == "POST" { POST } else { Cost::ONE });
/// let layer = RateLimitLayer::all([rule.clone()]);
///
/// // While requests are served:
/// rule.set_policy(&Policy::gcra("api", Quota::per_minute(100)))?;
/// rule.set_mode(Mode::SHADOW);
/// # Ok::<(), limiter_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Rule {
    pub(crate) settings: Arc<Settings>,
}

impl Rule {
    /// Returns a rule that counts requests under `key`, and refuses those that don't fit.
    pub fn new(limiter: impl Limiter + 'static, key: impl KeyExtractor + 'static) -> Self {
        let (limiter, key) = (Arc::new(limiter), Arc::new(key));
        let typed = Typed { limiter: Arc::clone(&limiter), key: Arc::clone(&key) };
        Self::of(Plan::of(limiter, None), key, Arc::new(typed), None)
    }

    /// Returns a rule that delays requests within the bounds of `wait`, and refuses the others.
    ///
    /// A layer has at most one such rule.
    pub fn waiting(
        limiter: impl WaitingLimiter + 'static,
        key: impl KeyExtractor + 'static,
        wait: Wait,
    ) -> Self {
        let (limiter, key) = (Arc::new(limiter), Arc::new(key));
        let typed = Typed { limiter: Arc::clone(&limiter), key: Arc::clone(&key) };
        Self::of(Plan::of_waiting(limiter), key, Arc::new(typed), Some(wait))
    }

    fn of(
        plan: Plan,
        key: Arc<dyn KeyExtractor>,
        typed: Arc<dyn Check>,
        wait: Option<Wait>,
    ) -> Self {
        let settings = Settings {
            spec: Spec::new(plan.policy().name(), key),
            shared: Arc::new(Shared::new(plan)),
            typed,
            cost: None,
            select: Select::Own,
            wait,
            settle: None,
            charge_after: None,
            block: None,
        };
        Self { settings: Arc::new(settings) }
    }

    /// Reports the rule under another name than its limiter's: to clients, in events and metrics, and to
    /// [`set_policy`](Self::set_policy) and [`Reload`](crate::Reload). Its states, and those of its block, keep the
    /// limiter's name, so that a rename loses none of them. It returns a rule of its own, so call it first.
    ///
    /// ```
    /// use limiter_tower::{ClientIp, MemoryLimiter, Policy, Quota, Rule};
    ///
    /// let limiter = MemoryLimiter::new(Policy::gcra("api-v1", Quota::per_minute(100)));
    /// let rule = Rule::new(limiter, ClientIp::peer()).shown_as("api")?;
    /// assert_eq!((rule.name(), rule.policy().name()), ("api", "api"));
    /// # Ok::<(), limiter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Policy::renamed`](limiter_core::Policy::renamed).
    pub fn shown_as(self, name: &str) -> Result<Self, Error> {
        let plan = self.live_plan().into_owned();
        let plan = plan.with_policy(&plan.policy().renamed(name)?)?;
        let live = Arc::new(Live::new(name));
        live.set_mode(self.mode());
        // The limiter as its own type has the policy that it was made with.
        live.was_changed.set(self.spec().live.was_changed.get());
        Ok(self.with(|settings| {
            settings.spec.live = live;
            settings.shared = Arc::new(Shared::new(plan));
        }))
    }

    /// Sets the cost of each request. The default is one permit.
    ///
    /// A cost above the burst, as that of a large batch or a deep GraphQL query, never fits: the refusal
    /// has no `Retry-After` and says so. Cap the cost at the burst if such a request should be served.
    #[must_use]
    pub fn cost(self, cost: impl Fn(Head<'_>) -> Cost + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.cost = Some(Arc::new(cost)))
    }

    /// Sets the plan of each request: `select` returns it, or `None` for the rule's own policy.
    ///
    /// [`Plans`](crate::plan::Plans) selects by tier. Plans should be prepared beforehand, and share the limiter's
    /// states. A plan with the name of another rule of the layer rejects the request with 500, because header fields
    /// identify policies by name. A rule that delays requests refuses those whose plan can't wait.
    #[must_use]
    pub fn plan(self, select: impl Fn(Head<'_>) -> Option<Plan> + Send + Sync + 'static) -> Self {
        self.with(|settings| settings.select = Select::By(Arc::new(select)))
    }

    /// Returns this rule under `plan`, for [`check`](Self::check), [`ask`](Self::ask) and [`peek`](Self::peek).
    #[must_use]
    pub fn under(&self, plan: &Plan) -> Self {
        self.clone().with(|settings| settings.select = Select::Fixed(plan.clone()))
    }

    /// Settles each charge when the inner service has responded: `settle` returns how much is kept.
    ///
    /// Each request is charged in full first, and its header fields report what is left after the
    /// settlement. So requests at the same moment need room for all of them: of 20 correct logins at once
    /// under 5/min, 15 are refused, although none of them is charged in the end. Choose a burst for the
    /// requests that a key may have in flight, or [`charge_after`](Self::charge_after). Without a response, because the
    /// inner service failed, panicked or the client went away, the full charge stays.
    ///
    /// Give back for what the service calls a success, and keep the rest: a status that nobody has thought of then
    /// counts.
    ///
    /// ```
    /// # use limiter_core::{MemoryLimiter, Policy, Quota};
    /// use limiter_tower::{ClientIp, Rule, rule::Keep};
    ///
    /// # let limiter = MemoryLimiter::new(Policy::gcra("login", Quota::per_minute(5)));
    /// // Only failed logins count. A form that has logged in answers 303.
    /// let rule = Rule::new(limiter, ClientIp::peer())
    ///     .settle(|response| if response.status == 303 { Keep::None } else { Keep::All });
    /// ```
    #[must_use]
    pub fn settle(self, settle: impl Fn(ResponseHead<'_>) -> Keep + Send + Sync + 'static) -> Self {
        self.with(|settings| {
            settings.settle = Some(Arc::new(settle));
            settings.charge_after = None;
        })
    }

    /// Charges each request when the inner service has responded: `charge` returns how much, `None` for nothing.
    ///
    /// Before, the rule only asks whether the [cost](Self::cost) fits. A layer refuses a rule that [waits](Self::waiting)
    /// for permits as well. So requests that are in flight at the same time
    /// are all admitted, and a key gets up to that many more than its limit. Use it where the outcome decides what a
    /// request costs and the overshoot does no harm, and [`settle`](Self::settle) elsewhere. Without a response nothing
    /// is charged.
    #[must_use]
    pub fn charge_after(
        self,
        charge: impl Fn(ResponseHead<'_>) -> Option<Cost> + Send + Sync + 'static,
    ) -> Self {
        self.with(|settings| {
            settings.charge_after = Some(Arc::new(charge));
            settings.settle = None;
        })
    }

    /// Blocks a key for a time after too many refusals: see [`Block`].
    ///
    /// While a key is blocked, its requests are refused and charge nothing, neither here nor by other rules, and their
    /// refusals don't prolong the block. Blocks are in the store of the limiter, so processes share them.
    /// [`reset`](Self::reset) lifts the block of a key. Through a store, a refusal waits until its strike is counted, so that
    /// the refusal that starts a block announces the block's wait.
    ///
    /// ```
    /// use std::time::Duration;
    /// use limiter_core::{Block, MemoryLimiter, Policy, Quota};
    /// use limiter_tower::{ClientIp, Rule};
    ///
    /// const MINUTE: Duration = Duration::from_secs(60);
    /// let limiter = MemoryLimiter::new(Policy::gcra("api", Quota::per_second(10)));
    /// // An address that was refused 100 times within a minute is blocked for 5 minutes, then for 10, up to an hour.
    /// let block = Block::after(100).within(MINUTE).lasting(5 * MINUTE).doubling(60 * MINUTE);
    /// let rule = Rule::new(limiter, ClientIp::peer()).block(block)?;
    /// # Ok::<(), limiter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Blocks::new`].
    pub fn block(self, block: Block) -> Result<Self, Error> {
        self.blocking(block, None)
    }

    /// Blocks a key for a time after too many responses that `strike` chooses, such as 401 for wrong passwords.
    ///
    /// A block alone admits as many attempts as are in flight at once: let the rule's limit bound those.
    ///
    /// ```
    /// use std::time::Duration;
    /// use limiter_core::{Block, MemoryLimiter, Policy, Quota};
    /// use limiter_tower::{ClientIp, Rule, rule::Strike};
    ///
    /// const MINUTE: Duration = Duration::from_secs(60);
    /// let limiter = MemoryLimiter::new(Policy::gcra("login", Quota::per_minute(10)));
    /// let block = Block::after(20).within(10 * MINUTE).lasting(15 * MINUTE);
    /// // A form that has logged in answers 303. All else is a strike.
    /// let rule = Rule::new(limiter, ClientIp::peer())
    ///     .block_by_response(block, |response| if response.status == 303 { Strike::Success } else { Strike::Count })?;
    /// # Ok::<(), limiter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Blocks::new`].
    pub fn block_by_response(
        self,
        block: Block,
        strike: impl Fn(ResponseHead<'_>) -> Strike + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        self.blocking(block, Some(Arc::new(strike)))
    }

    fn blocking(self, block: Block, strikes: Option<StrikeFn>) -> Result<Self, Error> {
        let blocks = Blocks::new(self.settings.typed.limiter(), &block)?;
        Ok(self.with(|settings| settings.block = Some(Blocking { blocks, strikes })))
    }

    /// Returns whether `other` is a clone of this rule.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.settings.shared, &other.settings.shared)
    }

    /// Returns what all clones share, beside what both kinds of rules have.
    pub(crate) fn shared(&self) -> &Shared {
        &self.settings.shared
    }

    /// Returns the rule's own plan, as it was set last.
    pub(crate) fn live_plan(&self) -> Cow<'_, Plan> {
        self.shared().plan.get()
    }

    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
    }
}

rule_methods!(Rule);

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // All fields, so that the compiler asks of a new one whether it is printed.
        let Settings {
            spec: Spec { live, key: _, disclosure, on_store_failure, observer: _ },
            shared: _,
            typed: _,
            cost: _,
            select: _,
            wait,
            settle: _,
            charge_after: _,
            block: _,
        } = &*self.settings;
        f.debug_struct("Rule")
            .field("name", &live.name)
            .field("policy", &self.policy())
            .field("mode", &self.mode())
            .field("wait", wait)
            .field("disclosure", disclosure)
            .field("on_store_failure", on_store_failure)
            .finish_non_exhaustive()
    }
}
