//! Limiters of this process that have the same states by mistake.

use std::{
    mem,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use limiter_core::{Limit, Policy};

use crate::context::Context;

/// A limiter that was built in this process.
struct Built {
    store: String,
    context: Weak<Context>,
    /// Whether it was logged that others have its states.
    is_logged: bool,
}

static LIMITERS: Mutex<Vec<Built>> = Mutex::new(Vec::new());

/// Notes that a limiter was built, and logs once if another one that is in use has the same states and other quotas.
pub(crate) fn note(store: String, context: &Arc<Context>) {
    // Dropped after the lock is released.
    let mut in_use = Vec::new();
    // No operation under the lock can leave it half done.
    let mut limiters = LIMITERS.lock().unwrap_or_else(PoisonError::into_inner);
    limiters.retain(|built| built.context.strong_count() > 0);
    let (mut is_logged, mut other_quotas) = (false, None);
    for built in limiters.iter_mut().filter(|built| built.store == store) {
        let Some(other) = built.context.upgrade() else { continue };
        if have_same_states(&other, context) {
            is_logged |= mem::replace(&mut built.is_logged, true);
            other_quotas.get_or_insert_with(|| quotas(&other.policy));
        }
        in_use.push(other);
    }
    let differs = other_quotas.is_some();
    limiters.push(Built { store, context: Arc::downgrade(context), is_logged: differs });
    drop(limiters);
    if let Some(others) = other_quotas.filter(|_| !is_logged) {
        let (policy, quotas) = (context.policy.name(), quotas(&context.policy));
        tracing::warn!(
            policy,
            "two limiters in this process have the same policy name, store and prefix, and the quotas {others} \
             and {quotas}: they charge the same states; use different names, or with_policy for another quota on \
             the same states"
        );
    }
}

/// Returns whether both have the same keys for a limit, and other quotas for it.
fn have_same_states(one: &Context, other: &Context) -> bool {
    limits(one).any(|(keys, limit)| {
        limits(other).any(|(others, other)| keys == others && limit.quota() != other.quota())
    })
}

/// Returns what the keys of each limit have in common, and the limit.
fn limits(context: &Context) -> impl Iterator<Item = ((&[u8], &[u8]), &Limit)> {
    context.keys.parts().zip(context.policy.limits())
}

fn quotas(policy: &Policy) -> String {
    let quotas = policy.limits().iter().map(|limit| limit.quota().to_string());
    quotas.collect::<Vec<_>>().join(", ")
}
