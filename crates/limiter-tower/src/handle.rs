//! Operates a layer while it serves requests.

mod check;

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use limiter_core::{Error, ErrorKind, Key, LimiterFuture, Policy, Usage};

pub use self::check::Refused;
use crate::{
    config::Config,
    rule::{Mode, Rule},
};

/// Changes and inspects a layer while it serves requests.
///
/// [`RateLimitLayer::build`](crate::RateLimitLayer::build) returns it. A clone operates the same
/// layer. A rule is found by the name that its policy had when it was added.
///
/// ```
/// use limiter_core::{MemoryLimiter, Policy, Quota};
/// use limiter_tower::{ClientIp, OnMissing, RateLimitLayer, rule::Mode};
///
/// let limiter = MemoryLimiter::new(Policy::gcra("api", Quota::per_minute(10)));
/// let (layer, handle) = RateLimitLayer::new(limiter, ClientIp::peer(), OnMissing::Reject).build();
///
/// handle.rule("api")?.set_policy(&Policy::gcra("api", Quota::per_minute(100)))?;
/// handle.rule("api")?.set_mode(Mode::SHADOW)?;
/// handle.switch_off();
/// assert!(handle.rule("apis").is_err());
/// # Ok::<(), limiter_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Handle {
    config: Arc<Config>,
}

impl Handle {
    pub(crate) const fn new(config: Arc<Config>) -> Self {
        Self { config }
    }

    /// Returns the rule of that name.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`] if the layer has no rule of that name. The message lists the rules.
    pub fn rule(&self, name: &str) -> Result<RuleHandle<'_>, Error> {
        let rules = &self.config.rules;
        if let Some(rule) = rules.iter().find(|rule| &*rule.name == name) {
            return Ok(RuleHandle { config: &self.config, rule });
        }
        let known: Vec<_> = rules.iter().map(|rule| format!("{:?}", rule.name)).collect();
        let message = format!("unknown rule {name:?}; expected one of {}", known.join(", "));
        Err(Error::new(ErrorKind::InvalidName, message))
    }

    /// Returns the rules, in the order in which they are asked.
    pub fn rules(&self) -> impl Iterator<Item = RuleHandle<'_>> {
        self.config.rules.iter().map(|rule| RuleHandle { config: &self.config, rule })
    }

    /// Forwards all requests from now on, without counting them. Requests that wait already are not
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

    /// Returns how many refunds the layer could not send: the store failed, or there was no runtime
    /// to send them on.
    ///
    /// A refund in memory is always executed. Any other is sent by a Tokio task, which needs the
    /// feature `tokio`.
    #[must_use]
    pub fn unsent_refunds(&self) -> u64 {
        self.config.unsent.get()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.config.fmt(f)
    }
}

/// One rule of a [`Handle`].
#[derive(Clone, Copy)]
pub struct RuleHandle<'h> {
    config: &'h Config,
    rule: &'h Rule,
}

impl RuleHandle<'_> {
    /// Returns the rule's name: the one that its policy had at first.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.rule.name
    }

    /// Returns the policy that is enforced.
    #[must_use]
    pub fn policy(self) -> Policy {
        self.rule.plan.get().policy().clone()
    }

    /// Enforces `policy` from now on. Keys keep their debts. Plans that were prepared for tiers,
    /// routes or customers stay as they are.
    ///
    /// # Errors
    ///
    /// As [`Limiter::with_policy`](limiter_core::Limiter::with_policy), and
    /// [`ErrorKind::InvalidName`] if another rule has a policy or limit of that name. The rule stays as
    /// it was.
    pub fn set_policy(self, policy: &Policy) -> Result<(), Error> {
        if let Some(name) = self.config.taken_name(policy, Some(&self.rule.name)) {
            let message = format!("another rule has a policy or limit named {name:?}; rename one");
            return Err(Error::new(ErrorKind::InvalidName, message));
        }
        self.rule.plan.set(self.rule.plan.get().with_policy(policy)?);
        Ok(())
    }

    /// Returns for which keys the rule is enforced.
    #[must_use]
    pub fn mode(self) -> Mode {
        self.rule.mode.get()
    }

    /// Sets for which keys the rule is enforced.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] if a rule whose key clients choose would be enforced for more keys
    /// than the rules beside it. [`Handle::switch_off`] switches off all rules.
    pub fn set_mode(self, mode: Mode) -> Result<(), Error> {
        // One change at a time: two that are accepted alone may not be together.
        static CHANGES: Mutex<()> = Mutex::new(());
        let _lock = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
        let name = &self.rule.name;
        let changed = |rule: &Rule| if rule.name == *name { mode } else { rule.mode.get() };
        if !self.config.has_enough_keys(changed) {
            let percent = mode.percent();
            let message = format!(
                "invalid mode of {name:?}, {percent} % enforced: a rule whose key clients choose would \
                 be enforced for more keys than the rules beside it; change both, or switch off the layer"
            );
            return Err(Error::new(ErrorKind::InvalidSetting, message));
        }
        self.rule.mode.set(mode);
        Ok(())
    }

    /// Returns how far the permits of `key` are used up. With a store, the answer has to be awaited.
    pub fn peek(self, key: &Key<'_>) -> LimiterFuture<Usage> {
        self.rule.plan.get().limiter().peek(key)
    }

    /// Makes `key` fresh. With a store, the answer has to be awaited.
    pub fn reset(self, key: &Key<'_>) -> LimiterFuture<()> {
        self.rule.plan.get().limiter().reset(key)
    }
}

impl fmt::Debug for RuleHandle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rule.fmt(f)
    }
}
