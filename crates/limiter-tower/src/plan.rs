//! Policies for tiers and customers.

mod plans;

use std::{fmt, sync::Arc};

use limiter_core::{Error, Limiter, Policy, WaitingLimiter};

pub use self::plans::Plans;
use crate::{fields::Fields, observe::log};

/// A limiter's handle that a layer can use under one policy, with its header fields prepared.
///
/// [`Plans`] is a table of them. A closure given to [`Rule::plan`](crate::Rule::plan) returns one for each request, for
/// instance for the quota that a database has for a customer. A clone is cheap.
///
/// ```
/// use limiter_core::{MemoryLimiter, Policy, Quota};
/// use limiter_tower::plan::Plan;
///
/// let limiter = MemoryLimiter::new(Policy::gcra("api", Quota::per_minute(10)));
/// let plan = Plan::new(limiter).with_policy(&Policy::gcra("acme", Quota::per_minute(500)))?;
/// assert_eq!(plan.policy().name(), "acme");
/// # Ok::<(), limiter_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Plan(Arc<Inner>);

struct Inner {
    limiter: Arc<dyn Limiter>,
    /// The same limiter, if callers can wait for it.
    waiting: Option<Arc<dyn WaitingLimiter>>,
    fields: Fields,
}

impl Plan {
    /// Returns the plan of `limiter`'s policy. It can't delay requests.
    pub fn new(limiter: impl Limiter + 'static) -> Self {
        Self::of(Arc::new(limiter), None)
    }

    /// Returns the plan of `limiter`'s policy, which can delay requests.
    pub fn waiting(limiter: impl WaitingLimiter + 'static) -> Self {
        Self::of_waiting(Arc::new(limiter))
    }

    pub(crate) fn of_waiting(limiter: Arc<dyn WaitingLimiter>) -> Self {
        Self::of(Arc::clone(&limiter) as Arc<dyn Limiter>, Some(limiter))
    }

    pub(crate) fn of(limiter: Arc<dyn Limiter>, waiting: Option<Arc<dyn WaitingLimiter>>) -> Self {
        let fields = Fields::new(limiter.policy());
        Self(Arc::new(Inner { limiter, waiting, fields }))
    }

    /// Returns a plan on the same states under `policy`.
    ///
    /// # Errors
    ///
    /// As [`Limiter::with_policy`].
    pub fn with_policy(&self, policy: &Policy) -> Result<Self, Error> {
        Ok(match &self.0.waiting {
            Some(limiter) => Self::of_waiting(limiter.waiting_with_policy(policy)?),
            None => Self::of(self.0.limiter.with_policy(policy)?, None),
        })
    }

    /// Returns the policy that is enforced.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        self.0.limiter.policy()
    }

    /// Returns the limiter.
    #[must_use]
    pub fn limiter(&self) -> &dyn Limiter {
        &*self.0.limiter
    }

    pub(crate) fn waiting_limiter(&self) -> Option<&dyn WaitingLimiter> {
        self.0.waiting.as_deref()
    }

    /// Logs under which limits all keys begin fresh, because `next` replaces this plan of the rule or tier `name`.
    pub(crate) fn log_resets_by(&self, name: &str, next: &Self) {
        let limits = self.policy().limits_reset_by(next.policy());
        if !limits.is_empty() {
            log::limits_reset(name, &limits);
        }
    }

    pub(crate) fn fields(&self) -> &Fields {
        &self.0.fields
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Plan").field(self.policy()).finish()
    }
}
