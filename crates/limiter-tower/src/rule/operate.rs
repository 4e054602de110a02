//! Changes and inspects a rule while requests are served.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use limiter_core::{Algorithm, Error, ErrorKind, Key, Limit, LimiterFuture, Policy, Usage};

use super::{
    Blocking, Rule,
    settings::{Peer, Shared},
};
use crate::plan::Plan;

/// Changes and inspects a rule while requests are served.
impl Rule {
    /// Returns the policy that is enforced: that of the plan of a rule [under](Self::under) one, and else the rule's own.
    #[must_use]
    pub fn policy(&self) -> Policy {
        self.fixed_plan().policy().clone()
    }

    /// Enforces `policy` from now on, in all clones. Keys keep what they have used under limits of the same
    /// [span](Policy::identities); those under which they begin fresh are logged. Plans that were prepared for tiers or
    /// customers stay as they are. [`Reload`](crate::Reload) sets those of several rules and plans, or none.
    ///
    /// # Errors
    ///
    /// As [`Limiter::with_policy`](limiter_core::Limiter::with_policy), and [`ErrorKind::InvalidName`] if another rule of
    /// its layer has a policy or a limit of a name in `policy`. The rule stays as it was.
    pub fn set_policy(&self, policy: &Policy) -> Result<(), Error> {
        self.set_plan(self.next_plan(policy)?);
        Ok(())
    }

    /// Returns the rule's own plan under another policy.
    pub(crate) fn next_plan(&self, policy: &Policy) -> Result<Plan, Error> {
        self.check_names(policy)?;
        check_slots(policy)?;
        self.live_plan().with_policy(policy)
    }

    /// Returns an error if a policy has a name that another rule of a layer has.
    pub(crate) fn check_names(&self, policy: &Policy) -> Result<(), Error> {
        let peers = self.shared().peers.load();
        match names_in(policy).find(|name| peers.iter().any(|peer| peer.has(name))) {
            None => Ok(()),
            Some(name) => {
                let fault = format!(
                    "invalid policy {name:?}: another rule of the layer has a policy or limit of this name; rename one"
                );
                Err(Error::new(ErrorKind::InvalidName, fault))
            }
        }
    }

    /// Notes the other rules of a layer, whose names this one must not take.
    pub(crate) fn meet<'r>(&self, others: impl Iterator<Item = &'r Self>) {
        let mut peers = Vec::clone(&self.shared().peers.load());
        for other in others {
            let peer =
                Peer { fixed: other.fixed_names(), shared: Arc::downgrade(&other.settings.shared) };
            if !peers.iter().any(|known| known.shared.ptr_eq(&peer.shared)) {
                peers.push(peer);
            }
        }
        self.shared().peers.store(Arc::new(peers));
    }

    /// Returns the names that the rule has now: of its policy, of that one's limits, and those that it always has.
    pub(crate) fn names(&self) -> Vec<String> {
        let policy = self.policy();
        names_in(&policy).map(str::to_owned).chain(self.fixed_names()).collect()
    }

    /// Returns the names that the rule always has: its own, and those of the states of its block.
    fn fixed_names(&self) -> Vec<String> {
        let parts = self.settings.block.as_ref().map(|_| ["strikes", "levels", "block"]);
        let stored = self.settings.typed.limiter().policy().name();
        let of_block = parts.into_iter().flatten().map(|part| format!("{stored}-{part}"));
        of_block.chain([self.name().to_owned()]).collect()
    }

    /// Sets the plan in all clones.
    pub(crate) fn set_plan(&self, plan: Plan) {
        self.live_plan().log_resets_by(self.name(), &plan);
        self.shared().plan.set(plan);
        self.spec().live.was_changed.set(true);
    }

    /// Returns how far the permits of `key` are used up, by the rule's [policy](Self::policy). With a store, the answer has
    /// to be awaited.
    pub fn peek(&self, key: &Key<'_>) -> LimiterFuture<Usage> {
        self.fixed_plan().limiter().peek(key)
    }

    /// Makes `key` fresh, and lifts its block. With a store, the answer has to be awaited.
    pub fn reset(&self, key: &Key<'_>) -> LimiterFuture<()> {
        let mut reset = self.fixed_plan().limiter().reset(key);
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

    /// Returns how many refunds, later charges and strikes could not be sent: the store failed, or there was no runtime to
    /// send them on.
    ///
    /// In memory they are always executed. Any other is sent by a Tokio task, which needs the feature `tokio`.
    #[must_use]
    pub fn unsent(&self) -> u64 {
        self.shared().unsent.load(Ordering::Relaxed)
    }
}

impl Peer {
    fn has(&self, name: &str) -> bool {
        let is_policys =
            |shared: Arc<Shared>| names_in(shared.plan.get().policy()).any(|it| it == name);
        self.fixed.iter().any(|it| it == name) || self.shared.upgrade().is_some_and(is_policys)
    }
}

/// Returns the names of a policy and of its limits.
fn names_in(policy: &Policy) -> impl Iterator<Item = &str> {
    policy.limits().iter().map(Limit::name).chain([policy.name()])
}

/// Returns an error if a client that waits for whole seconds, as `Retry-After` says, could miss each slot that has a permit.
pub(crate) fn check_slots(policy: &Policy) -> Result<(), Error> {
    for limit in policy.limits() {
        let (permits, window) = (limit.quota().permits(), limit.quota().window());
        if let Algorithm::SubWindows(slots) = limit.algorithm()
            && slots.is_paced()
            && permits < slots.number().into()
            && let slot = window / slots.number()
            && slot < Duration::from_secs(2)
        {
            let fault = format!(
                "the limit {:?} has fewer permits than slots of {slot:?}: a client that waits for whole seconds could miss \
                 each slot with a permit; use at most {permits} slots",
                limit.name()
            );
            return Err(Error::new(ErrorKind::InvalidQuota, fault));
        }
    }
    Ok(())
}
