//! Random policies: of one limit or of several, and those that take turns with them.

use std::time::Duration;

use limiter_core::{Algorithm, Error, Policy, Quota};

use super::{Lengths, TIERS};
use crate::{algorithms, random::Random};

/// Returns the policies that take turns on the keys of a limiter, with the same algorithms and random quotas. Permits are
/// leased if the lengths of leases are given.
pub(super) fn tiers(
    random: &mut Random,
    name: &str,
    algorithm: Algorithm,
    lease: Option<Lengths>,
) -> Result<Vec<Policy>, Error> {
    // A policy of several limits has no leases.
    let is_several = lease.is_none() && random.below(3) == 0;
    let first = match is_several {
        true => several(random, name, algorithm)?,
        false => single(random, name, algorithm, lease)?,
    };
    let mut tiers = vec![first.clone()];
    while tiers.len() < TIERS {
        tiers.push(other(random, &first, lease)?);
    }
    Ok(tiers)
}

/// Returns a policy of one limit.
fn single(
    random: &mut Random,
    name: &str,
    algorithm: Algorithm,
    lease: Option<Lengths>,
) -> Result<Policy, Error> {
    let quota = quota(random, algorithm, lease)?;
    algorithms::policy(name, algorithms::fitted(random, algorithm, &quota), quota)
}

/// Returns a policy of two or three limits, the first of which has an algorithm.
fn several(random: &mut Random, name: &str, algorithm: Algorithm) -> Result<Policy, Error> {
    let mut limits = vec![single(random, name, algorithm, None)?];
    for number in 0..random.between(1, 2) {
        let mut algorithm = algorithms::any(random.fork());
        // Two limits of a policy can't be paced.
        if limits.iter().flat_map(Policy::limits).any(|limit| algorithms::pace(limit).is_some()) {
            algorithm = algorithms::unpaced(algorithm);
        }
        limits.push(single(random, &format!("other-{number}"), algorithm, None)?);
    }
    Policy::all_of(name, limits)
}

/// Returns a policy with the limits of another one, and other quotas: in half of them, with the same windows.
fn other(random: &mut Random, policy: &Policy, lease: Option<Lengths>) -> Result<Policy, Error> {
    let has_same_windows = random.below(2) == 0;
    let limits = policy.limits().iter().map(|limit| {
        let algorithm = limit.algorithm();
        let mut quota = quota(random, algorithm, lease)?;
        if has_same_windows {
            let same = Quota::new(quota.permits(), limit.quota().window())?;
            let is_rate = algorithm.is_continuous();
            quota = if is_rate { same.try_with_burst(quota.burst())? } else { same };
        }
        let algorithm = algorithms::fitted(random, algorithm, &quota);
        Ok((limit.name().to_owned(), (algorithm, quota)))
    });
    let limits: Vec<(String, (Algorithm, Quota))> = limits.collect::<Result<_, Error>>()?;
    policy.with_quotas(|limit| {
        let other = limits.iter().find(|(name, _)| name == limit.name());
        Ok(other.map_or((limit.algorithm(), *limit.quota()), |(_, other)| *other))
    })
}

/// Returns a random quota.
fn quota(
    random: &mut Random,
    algorithm: Algorithm,
    lease: Option<Lengths>,
) -> Result<Quota, Error> {
    let (permits, millis, burst) = match lease {
        None => (random.between(2, 30), random.between(200, 1_500), random.between(1, 30)),
        Some(Lengths::Normal) => {
            (random.between(64, 200), random.between(500, 1_500), random.between(64, 200))
        }
        Some(Lengths::Long) => {
            (random.between(64, 200), random.between(2_000, 4_000), random.between(200, 300))
        }
        Some(Lengths::Short) => (random.between(80, 96), random.between(100, 140), 96),
        Some(Lengths::OfMany) => {
            (random.between(300, 600), random.between(500, 1_500), random.between(200, 600))
        }
    };
    let quota = Quota::new(permits, Duration::from_millis(millis))?;
    if algorithm.is_continuous() { quota.try_with_burst(burst) } else { Ok(quota) }
}
