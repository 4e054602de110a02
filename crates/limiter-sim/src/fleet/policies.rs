//! Random policies: of one limit or of several, and those that take turns with them.

use std::time::Duration;

use limiter_core::{Algorithm, Error, Policy, Quota, Slots};

use super::{HORIZON, Lengths, TIERS};
use crate::random::Random;

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
        false => Policy::new(name, algorithm, quota(random, algorithm, lease)?)?,
    };
    let first = first.with_horizon(HORIZON)?;
    let mut tiers = vec![first.clone()];
    while tiers.len() < TIERS {
        tiers.push(other(random, &first, lease)?);
    }
    Ok(tiers)
}

/// Returns a policy of two or three limits, the first of which has an algorithm.
fn several(random: &mut Random, name: &str, algorithm: Algorithm) -> Result<Policy, Error> {
    let slots = Slots::try_strict(u32::try_from(random.between(2, 6)).unwrap_or(2))?;
    let algorithms = [
        Algorithm::Gcra,
        Algorithm::FixedWindow,
        Algorithm::AlignedWindow,
        Algorithm::SlidingCounter,
        Algorithm::SlidingLog,
        Algorithm::SubWindows(slots),
    ];
    let mut limits = vec![Policy::new(name, algorithm, quota(random, algorithm, None)?)?];
    for number in 0..random.between(1, 2) {
        let algorithm = random.pick(&algorithms).copied().unwrap_or(Algorithm::Gcra);
        let quota = quota(random, algorithm, None)?;
        limits.push(Policy::new(&format!("other-{number}"), algorithm, quota)?);
    }
    Policy::all_of(name, limits)
}

/// Returns a policy with the limits of another one, and other quotas: in half of them, with the same windows.
fn other(random: &mut Random, policy: &Policy, lease: Option<Lengths>) -> Result<Policy, Error> {
    let has_same_windows = random.below(2) == 0;
    let quotas = policy.limits().iter().map(|limit| {
        let algorithm = limit.algorithm();
        let quota = quota(random, algorithm, lease)?;
        if !has_same_windows {
            return Ok((limit.name().to_owned(), quota));
        }
        let same = Quota::new(quota.permits(), limit.quota().window())?;
        let is_rate = algorithm == Algorithm::Gcra;
        let quota = if is_rate { same.try_with_burst(quota.burst())? } else { same };
        Ok((limit.name().to_owned(), quota))
    });
    let quotas: Vec<(String, Quota)> = quotas.collect::<Result<_, Error>>()?;
    policy.with_quotas(|limit| {
        let quota = quotas.iter().find(|(name, _)| name == limit.name());
        Ok((limit.algorithm(), quota.map_or(*limit.quota(), |(_, quota)| *quota)))
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
    match algorithm {
        Algorithm::Gcra => quota.try_with_burst(burst),
        _ => Ok(quota),
    }
}
