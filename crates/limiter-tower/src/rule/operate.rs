//! Changes and inspects a rule while requests are served.

use std::{collections::HashSet, sync::atomic::Ordering, time::Duration};

use limiter_core::{Error, ErrorKind, Key, LimiterFuture, Policy, Usage};

use super::{Blocking, Mode, Rule};
use crate::key::{Head, MissingKey};

/// Changes and inspects a rule while requests are served.
impl Rule {
    /// Returns the rule's name: the one that its policy had at first.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.live().name
    }

    /// Returns the policy that is enforced.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.live().plan.with(|plan| plan.policy().clone())
    }

    /// Enforces `policy` from now on, in all clones. Keys keep their debts. Plans that were prepared for tiers or
    /// customers stay as they are.
    ///
    /// # Errors
    ///
    /// As [`Limiter::with_policy`](limiter_core::Limiter::with_policy). The rule stays as it was.
    pub fn set_policy(&self, policy: &Policy) -> Result<(), Error> {
        self.live().plan.set(self.live().plan.get().with_policy(policy)?);
        Ok(())
    }

    /// Enforces the policies of several rules at once: all, or none if there is an error.
    ///
    /// Each rule has the policy of its [name](Self::name): a file with the policies of a service is read again by one
    /// call.
    ///
    /// ```
    /// use limiter_core::{MemoryLimiter, Policy, Quota};
    /// use limiter_tower::{ClientIp, Rule};
    ///
    /// let limiter = MemoryLimiter::new(Policy::gcra("api", Quota::per_minute(10)));
    /// let rules = [Rule::new(limiter, ClientIp::peer())];
    /// Rule::set_policies(&rules, [Policy::gcra("api", Quota::per_minute(20))])?;
    ///
    /// let error = Rule::set_policies(&rules, [Policy::gcra("apis", Quota::per_minute(30))]).unwrap_err();
    /// assert_eq!(error.to_string(), r#"no policy for the rule "api", no rule for the policy "apis""#);
    /// # Ok::<(), limiter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`] if a rule has no policy or two, or a policy no rule, with the names of all of them.
    /// Otherwise as [`Limiter::with_policy`](limiter_core::Limiter::with_policy).
    pub fn set_policies(
        rules: &[Self],
        policies: impl IntoIterator<Item = Policy>,
    ) -> Result<(), Error> {
        let policies: Vec<Policy> = policies.into_iter().collect();
        let of = |rule: &Self| policies.iter().find(|policy| policy.name() == rule.name());
        let without_policy = rules.iter().filter(|rule| of(rule).is_none());
        let without_policy =
            without_policy.map(|rule| format!("no policy for the rule {:?}", rule.name()));
        let without_rule = policies
            .iter()
            .filter(|policy| rules.iter().all(|rule| rule.name() != policy.name()))
            .map(|policy| format!("no rule for the policy {:?}", policy.name()));
        let mut names = HashSet::new();
        let twice = policies.iter().filter(|policy| !names.insert(policy.name()));
        let twice = twice.map(|policy| format!("two policies named {:?}", policy.name()));
        let faults: Vec<String> = without_policy.chain(without_rule).chain(twice).collect();
        if !faults.is_empty() {
            return Err(Error::new(ErrorKind::InvalidName, faults.join(", ")));
        }
        let with_plan = |rule: &Self| Some(rule.live().plan.get().with_policy(of(rule)?));
        let plans = rules.iter().filter_map(with_plan).collect::<Result<Vec<_>, _>>()?;
        for (rule, plan) in rules.iter().zip(plans) {
            rule.live().plan.set(plan);
        }
        Ok(())
    }

    /// Returns for which keys the rule is enforced.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.live().mode.get()
    }

    /// Sets for which keys the rule is enforced, in all clones.
    ///
    /// A rule whose key clients choose needs the rule beside it: make that one a shadow only together with it.
    pub fn set_mode(&self, mode: Mode) {
        self.live().mode.set(mode);
    }

    /// Returns the key under which the rule counts a request, for [`peek`](Self::peek) and [`reset`](Self::reset).
    ///
    /// # Errors
    ///
    /// [`MissingKey`] if the request has none.
    pub fn key<'r>(&self, head: impl Into<Head<'r>>) -> Result<Key<'r>, MissingKey> {
        self.settings.key.key(head.into())
    }

    /// Returns how far the permits of `key` are used up, by the rule's own policy. With a store, the answer has to be
    /// awaited.
    pub fn peek(&self, key: &Key<'_>) -> LimiterFuture<Usage> {
        self.live().plan.with(|plan| plan.limiter().peek(key))
    }

    /// Makes `key` fresh, and lifts its block. With a store, the answer has to be awaited.
    pub fn reset(&self, key: &Key<'_>) -> LimiterFuture<()> {
        let mut reset = self.live().plan.with(|plan| plan.limiter().reset(key));
        let Some(Blocking { blocks, .. }) = &self.settings.block else { return reset };
        let lifted = blocks.reset(key);
        match reset.take_ready() {
            Some(Ok(())) => lifted,
            Some(Err(error)) => LimiterFuture::ready(Err(error)),
            None => LimiterFuture::pending(async { reset.await.and(lifted.await) }),
        }
    }

    /// Returns for how long `key` is blocked, zero if it is not. With a store, the answer has to be awaited.
    pub fn blocked_for(&self, key: &Key<'_>) -> LimiterFuture<Duration> {
        match &self.settings.block {
            Some(Blocking { blocks, .. }) => blocks.blocked_for(key),
            None => LimiterFuture::ready(Ok(Duration::ZERO)),
        }
    }

    /// Returns how many refunds and later charges could not be sent: the store failed, or there was no runtime to
    /// send them on.
    ///
    /// In memory they are always executed. Any other is sent by a Tokio task, which needs the feature `tokio`.
    #[must_use]
    pub fn unsent(&self) -> u64 {
        self.live().unsent.load(Ordering::Relaxed)
    }
}
