//! Answers by the failure policy, after the store has returned an error.

use limiter_core::{Cost, Decision, Error, Reservation};

use crate::{
    client::ScriptClient, events::FallbackKind, limiter::RedisLimiter, local::fallback::Local,
    scripts::Ask,
};

impl<C: ScriptClient> RedisLimiter<C> {
    /// Returns the fallback's decision, or the error.
    pub(crate) fn check_without_store(
        &self,
        key: &[u8],
        cost: Cost,
        error: Error,
    ) -> Result<Decision, Error> {
        let local = self.locally(key, &error, |local| local.decide(key, cost));
        local.or_else(|| self.without_store(key, &error)).ok_or(error)
    }

    /// Returns the fallback's reservation, or the error.
    pub(crate) fn reserve_without_store(
        &self,
        key: &[u8],
        cost: Cost,
        ask: Ask,
        error: Error,
    ) -> Result<Reservation, Error> {
        self.fallback(key, cost, ask, &error).ok_or(error)
    }

    /// Returns the fallback's reservation, if there is one.
    pub(crate) fn fallback(
        &self,
        key: &[u8],
        cost: Cost,
        ask: Ask,
        error: &Error,
    ) -> Option<Reservation> {
        let local = self.locally(key, error, |local| local.reserve(key, cost, ask));
        local.or_else(|| {
            let decision = self.without_store(key, error)?;
            let most = if ask == Ask::UpTo { decision.remaining() } else { u64::MAX };
            Some(match decision.is_admitted() {
                true => Reservation::uncounted(decision, cost.get().min(most)),
                false => Reservation::refused(decision),
            })
        })
    }

    /// Returns the answer of the local fallback, if there is one, after the store returned `error`.
    pub(crate) fn locally<T>(
        &self,
        key: &[u8],
        error: &Error,
        ask: impl FnOnce(&Local) -> T,
    ) -> Option<T> {
        let answer = ask(self.handle.local.as_ref()?);
        self.sender.fell_back(FallbackKind::Local, error, &self.handle, key);
        Some(answer)
    }

    /// Returns the fallback's decision that is the same for all requests, if there is one.
    pub(crate) fn without_store(&self, key: &[u8], error: &Error) -> Option<Decision> {
        let decision = self.sender.context.settings.failure_policy.decision(&self.handle.policy)?;
        let kind = if decision.is_admitted() { FallbackKind::Allow } else { FallbackKind::Deny };
        self.sender.fell_back(kind, error, &self.handle, key);
        Some(decision)
    }
}
