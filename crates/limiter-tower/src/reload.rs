//! New policies for rules and plans, all of them or none.

use std::{collections::HashSet, fmt};

use limiter_core::{Error, ErrorKind, Policy};

use crate::{plan::Plans, rule::Rule};

/// New policies for rules and plans. All are checked before one is applied: for a file that is read again.
///
/// ```
/// use limiter_core::{MemoryLimiter, Policy, Quota};
/// use limiter_tower::{ClientIp, Reload, Rule, plan::Plans};
///
/// let limiter = MemoryLimiter::new(Policy::gcra("api", Quota::per_minute(10)));
/// let plans = Plans::new(limiter.clone(), [Policy::gcra("premium", Quota::per_minute(100))])?;
/// let rules = [Rule::new(limiter, ClientIp::peer())];
///
/// Reload::new()
///     .rules(&rules, [Policy::gcra("api", Quota::per_minute(20))])?
///     .plans(&plans, [Policy::gcra("premium", Quota::per_minute(200))])?
///     .apply();
///
/// let error = Reload::new().rules(&rules, [Policy::gcra("apis", Quota::per_minute(30))]).unwrap_err();
/// assert_eq!(error.to_string(), r#"no policy for the rule "api", no rule for the policy "apis""#);
/// # Ok::<(), limiter_core::Error>(())
/// ```
#[derive(Default)]
#[must_use = "nothing changes until `apply`"]
pub struct Reload {
    changes: Vec<Box<dyn FnOnce() + Send>>,
}

impl Reload {
    /// Returns a reload that changes nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds new policies for rules. Each rule has the policy of its [name](Rule::name).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`] if a rule has no policy or two, or a policy no rule, with the names of all of them.
    /// Otherwise as [`Limiter::with_policy`](limiter_core::Limiter::with_policy).
    pub fn rules(
        mut self,
        rules: &[Rule],
        policies: impl IntoIterator<Item = Policy>,
    ) -> Result<Self, Error> {
        let policies: Vec<Policy> = policies.into_iter().collect();
        check_names(rules, &policies)?;
        let of = |rule: &Rule| policies.iter().find(|policy| policy.name() == rule.name());
        for (rule, policy) in rules.iter().filter_map(|rule| Some((rule, of(rule)?))) {
            let plan = rule.next_plan(policy)?;
            let rule = rule.clone();
            self.changes.push(Box::new(move || rule.set_plan(plan)));
        }
        Ok(self)
    }

    /// Adds new policies for the plans of a table, in place of all that it has.
    ///
    /// # Errors
    ///
    /// As [`Plans::replace`].
    pub fn plans(
        mut self,
        plans: &Plans,
        policies: impl IntoIterator<Item = Policy>,
    ) -> Result<Self, Error> {
        self.changes.push(plans.replacement(policies)?);
        Ok(self)
    }

    /// Enforces all of them from now on. What keys keep is as by [`Rule::set_policy`].
    pub fn apply(self) {
        self.changes.into_iter().for_each(|change| change());
    }
}

/// Returns an error unless each rule has one policy of its name, and each policy a rule.
fn check_names(rules: &[Rule], policies: &[Policy]) -> Result<(), Error> {
    let has_policy = |rule: &&Rule| policies.iter().any(|it| it.name() == rule.name());
    let has_rule = |policy: &&Policy| rules.iter().any(|it| it.name() == policy.name());
    let rules = rules.iter().filter(|rule| !has_policy(rule));
    let rules = rules.map(|rule| format!("no policy for the rule {:?}", rule.name()));
    let unknown = policies.iter().filter(|policy| !has_rule(policy));
    let unknown = unknown.map(|policy| format!("no rule for the policy {:?}", policy.name()));
    let mut names = HashSet::new();
    let twice = policies.iter().filter(|policy| !names.insert(policy.name()));
    let twice = twice.map(|policy| format!("two policies named {:?}", policy.name()));
    let faults: Vec<String> = rules.chain(unknown).chain(twice).collect();
    match faults.is_empty() {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::InvalidName, faults.join(", "))),
    }
}

impl fmt::Debug for Reload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reload").field("changes", &self.changes.len()).finish()
    }
}
