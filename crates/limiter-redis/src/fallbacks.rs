//! Answers by this process's share, after the store has returned an error.

use limiter_core::{Cost, Decision, Error, Reservation};

use crate::{client::ScriptClient, limiter::RedisLimiter, local::fallback::Local, scripts::Ask};

impl<C: ScriptClient> RedisLimiter<C> {
    /// Returns the share's decision, or the error if there is no share.
    pub(crate) fn check_without_store(
        &self,
        key: &[u8],
        cost: Cost,
        error: Error,
    ) -> Result<Decision, Error> {
        self.locally(key, &error, |local| local.decide(key, cost)).ok_or(error)
    }

    /// Returns the share's reservation, or the error if there is no share.
    pub(crate) fn reserve_without_store(
        &self,
        key: &[u8],
        cost: Cost,
        ask: Ask,
        error: Error,
    ) -> Result<Reservation, Error> {
        self.locally(key, &error, |local| local.reserve(key, cost, ask)).ok_or(error)
    }

    /// Returns the answer of this process's share, if there is one, after the store returned `error`.
    pub(crate) fn locally<T>(
        &self,
        key: &[u8],
        error: &Error,
        ask: impl FnOnce(&Local) -> T,
    ) -> Option<T> {
        let answer = ask(self.handle.local.as_ref()?);
        self.sender.decided_locally(error, &self.handle, key);
        Some(answer)
    }
}
