//! Limiters of this process that have the same states by mistake.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, PoisonError, Weak},
};

use limiter_core::Policy;

use crate::context::Context;

/// The limiters that were built.
#[derive(Default)]
struct Limiters {
    /// By each state that they have, the place of its limit in the policy, and the limiter.
    by_state: HashMap<State, (usize, Weak<Context>)>,
    /// Those that are not in use any more are removed when there are more.
    sweep_at: usize,
}

/// The store, what is before and behind the subject in the keys of a limiter, and what identifies a limit.
type State = (String, Vec<u8>, Vec<u8>, String);

static LIMITERS: LazyLock<Mutex<Limiters>> = LazyLock::new(Mutex::default);

/// Notes that a limiter was built, and logs if another one that is in use has the same states and other quotas.
pub(crate) fn note(store: &str, context: &Arc<Context>) {
    let ((before, after), policy) = (context.keys.parts(), &context.policy);
    let mut other = None;
    // No operation under the lock can leave it half done.
    let mut limiters = LIMITERS.lock().unwrap_or_else(PoisonError::into_inner);
    if limiters.by_state.len() >= limiters.sweep_at {
        limiters.by_state.retain(|_, (_, context)| context.strong_count() > 0);
        limiters.sweep_at = 2 * limiters.by_state.len() + 8;
    }
    for (place, identity) in policy.identities().iter().enumerate() {
        let state = (store.to_owned(), before.to_vec(), after.to_vec(), identity.clone());
        let known = limiters.by_state.get(&state);
        match known.and_then(|(place, context)| Some((*place, context.upgrade()?))) {
            Some((known, in_use)) => {
                let quota = |policy: &Policy, place: usize| {
                    policy.limits().get(place).map(|it| *it.quota())
                };
                if quota(&in_use.policy, known) != quota(policy, place) {
                    other = Some(in_use);
                }
            }
            None => _ = limiters.by_state.insert(state, (place, Arc::downgrade(context))),
        }
    }
    // Before the other one, because this may be the last reference to it.
    drop(limiters);
    if let Some(other) = other {
        let (others, quotas) = (quotas(&other.policy), quotas(policy));
        tracing::warn!(
            policy = policy.name(),
            "two limiters in this process have the same policy name, store and prefix, and the quotas {others} \
             and {quotas}: they charge the same states; use different names, or with_policy for another quota on \
             the same states"
        );
    }
}

fn quotas(policy: &Policy) -> String {
    let quotas = policy.limits().iter().map(|limit| limit.quota().to_string());
    quotas.collect::<Vec<_>>().join(", ")
}
