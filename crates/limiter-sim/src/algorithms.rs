//! The algorithms of a run: each variant, with random parameters.

use limiter_core::{Algorithm, Error, Limit, Policy, Quota, Slots};

use crate::{random::Random, vocabulary::HORIZON};

/// Returns an algorithm of any variant. Slots are drawn here, and the depth of a queue by [`fitted`] when its quota is
/// known.
pub(crate) fn any(mut random: Random) -> Algorithm {
    let all: Vec<Algorithm> = Algorithm::one_of_each().collect();
    let algorithm = random.pick(&all).copied().unwrap_or(Algorithm::Gcra);
    match algorithm {
        Algorithm::SubWindows(_) => Algorithm::SubWindows(slots(&mut random)),
        _ => algorithm,
    }
}

fn slots(random: &mut Random) -> Slots {
    let number = u32::try_from(random.between(2, 6)).unwrap_or(2);
    let is_loose = random.below(2) == 0;
    let slots = if is_loose { Slots::loose(number) } else { Slots::strict(number) };
    if random.below(2) == 0 { slots.paced() } else { slots }
}

/// Returns the algorithm for a quota: a queue has a random depth, and promises permits no farther ahead than the other
/// algorithms.
pub(crate) fn fitted(random: &mut Random, algorithm: Algorithm, quota: &Quota) -> Algorithm {
    match algorithm {
        Algorithm::LeakyQueue { .. } => {
            let within = u128::from(quota.permits()) * HORIZON.as_nanos();
            let most = u64::try_from(within / quota.window().as_nanos()).unwrap_or(1);
            Algorithm::LeakyQueue { depth: random.between(1, most) }
        }
        _ => algorithm,
    }
}

/// Returns the algorithm without ceilings of its slots.
pub(crate) const fn unpaced(algorithm: Algorithm) -> Algorithm {
    match algorithm {
        Algorithm::SubWindows(slots) if slots.is_loose() => {
            Algorithm::SubWindows(Slots::loose(slots.number()))
        }
        Algorithm::SubWindows(slots) => Algorithm::SubWindows(Slots::strict(slots.number())),
        _ => algorithm,
    }
}

/// Returns a policy of one limit, which promises permits up to the horizon, or up to its depth.
pub(crate) fn policy(name: &str, algorithm: Algorithm, quota: Quota) -> Result<Policy, Error> {
    let policy = Policy::new(name, algorithm, quota)?;
    match algorithm {
        Algorithm::LeakyQueue { .. } => Ok(policy),
        _ => policy.with_horizon(HORIZON),
    }
}

/// Returns how many slots a limit spreads its permits over, if it does.
pub(crate) const fn pace(limit: &Limit) -> Option<u64> {
    match limit.algorithm() {
        Algorithm::SubWindows(slots) if slots.is_paced() => Some(slots.number() as u64),
        _ => None,
    }
}
