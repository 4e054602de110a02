//! Limiters of this process that have the same states by mistake.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, PoisonError, Weak},
};

use limiter_core::{Limit, Policy};

use crate::context::Context;

/// The contexts of the limiters that were built.
#[derive(Default)]
struct Limiters {
    /// By what their keys have in common.
    by_keys: HashMap<Keys, Vec<Weak<Context>>>,
    /// Those that are not in use any more are removed when there are more.
    sweep_at: usize,
}

/// The store, and what is before and behind the subject in the keys of a limiter.
type Keys = (String, Vec<u8>, Vec<u8>);

static LIMITERS: LazyLock<Mutex<Limiters>> = LazyLock::new(Mutex::default);

/// Notes that a limiter was built, and logs if another one that is in use has the same states and other quotas.
pub(crate) fn note(store: String, context: &Arc<Context>) {
    let (before, after) = context.keys.parts();
    let keys = (store, before.to_vec(), after.to_vec());
    // No operation under the lock can leave it half done.
    let mut limiters = LIMITERS.lock().unwrap_or_else(PoisonError::into_inner);
    if limiters.by_keys.len() >= limiters.sweep_at {
        limiters.by_keys.retain(|_, same| same.iter().any(|context| context.strong_count() > 0));
        limiters.sweep_at = 2 * limiters.by_keys.len() + 8;
    }
    let same = limiters.by_keys.entry(keys).or_default();
    same.retain(|context| context.strong_count() > 0);
    let in_use: Vec<_> = same.iter().filter_map(Weak::upgrade).collect();
    same.push(Arc::downgrade(context));
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

/// Returns whether both, of whose keys the same is known, have the same states for a limit, and other quotas for it.
fn have_same_states(one: &Context, other: &Context) -> bool {
    let is_same = |(identity, limit): (&String, &Limit)| {
        limits(other).any(|(others, other)| identity == others && limit.quota() != other.quota())
    };
    limits(one).any(is_same)
}

/// Returns what identifies the states of each limit, and the limit.
fn limits(context: &Context) -> impl Iterator<Item = (&String, &Limit)> {
    context.policy.identities().iter().zip(context.policy.limits())
}

fn quotas(policy: &Policy) -> String {
    let quotas = policy.limits().iter().map(|limit| limit.quota().to_string());
    quotas.collect::<Vec<_>>().join(", ")
}
