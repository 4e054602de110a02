//! Limiters of this process that have the same states by mistake.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use limiter_core::{Limit, Policy};

use crate::context::Context;

/// The stores and the contexts of the limiters that were built.
static LIMITERS: Mutex<Vec<(String, Weak<Context>)>> = Mutex::new(Vec::new());

/// Notes that a limiter was built, and logs if another one that is in use has the same states and other quotas.
pub(crate) fn note(store: String, context: &Arc<Context>) {
    // No operation under the lock can leave it half done.
    let mut limiters = LIMITERS.lock().unwrap_or_else(PoisonError::into_inner);
    limiters.retain(|(_, context)| context.strong_count() > 0);
    let of_store = limiters.iter().filter(|(other, _)| *other == store);
    let in_use: Vec<_> = of_store.filter_map(|(_, context)| context.upgrade()).collect();
    limiters.push((store, Arc::downgrade(context)));
    // Before the contexts, of which this may then be the last reference.
    drop(limiters);
    if let Some(other) = in_use.iter().find(|other| have_same_states(other, context)) {
        let (others, quotas) = (quotas(&other.policy), quotas(&context.policy));
        tracing::warn!(
            policy = context.policy.name(),
            "two limiters in this process have the same policy name, store and prefix, and the quotas {others} \
             and {quotas}: they charge the same states; use different names, or with_policy for another quota on \
             the same states"
        );
    }
}

/// Returns whether both have the same states for a limit, and other quotas for it.
fn have_same_states(one: &Context, other: &Context) -> bool {
    let is_same = |(identity, limit): (&String, &Limit)| {
        limits(other).any(|(others, other)| identity == others && limit.quota() != other.quota())
    };
    one.keys.parts() == other.keys.parts() && limits(one).any(is_same)
}

/// Returns what identifies the states of each limit, and the limit.
fn limits(context: &Context) -> impl Iterator<Item = (&String, &Limit)> {
    context.policy.identities().iter().zip(context.policy.limits())
}

fn quotas(policy: &Policy) -> String {
    let quotas = policy.limits().iter().map(|limit| limit.quota().to_string());
    quotas.collect::<Vec<_>>().join(", ")
}
