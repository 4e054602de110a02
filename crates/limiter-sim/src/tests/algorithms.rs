//! Which algorithms are drawn: all of them.

use std::{
    collections::HashSet,
    mem::{Discriminant, discriminant},
};

use limiter_core::{Algorithm, Limit, Policy, Slots};

use crate::{fleet::Fleet, random::Random};

/// A variant, and whether its slots are loose and whether they are paced.
type Form = (Discriminant<Algorithm>, Option<(bool, bool)>);

fn form(algorithm: Algorithm) -> Form {
    let slots = match algorithm {
        Algorithm::SubWindows(slots) => Some((slots.is_loose(), slots.is_paced())),
        _ => None,
    };
    (discriminant(&algorithm), slots)
}

/// Returns one algorithm of each variant, and each form of slots.
fn all() -> Vec<Algorithm> {
    let (strict, loose) = (Slots::strict(2), Slots::loose(2));
    let forms = [strict.paced(), loose, loose.paced()].map(Algorithm::SubWindows);
    Algorithm::one_of_each().chain(forms).collect()
}

fn forms<'a>(policies: impl Iterator<Item = &'a Policy>) -> HashSet<Form> {
    policies.flat_map(Policy::limits).map(Limit::algorithm).map(form).collect()
}

#[test]
fn fleets_have_each_algorithm_alone_and_as_one_of_several_limits() {
    let (mut alone, mut several) = (HashSet::new(), HashSet::new());
    for seed in 1..=200 {
        let fleet = Fleet::new(&mut Random::new(seed), 3, None).unwrap();
        for tiers in (0..fleet.limiters()).map(|limiter| fleet.tiers(limiter)) {
            let is_single = tiers.iter().all(|policy| policy.limits().len() == 1);
            let drawn = if is_single { &mut alone } else { &mut several };
            drawn.extend(forms(tiers.iter()));
        }
    }
    for algorithm in all() {
        assert!(alone.contains(&form(algorithm)), "{algorithm} is never drawn alone");
        assert!(several.contains(&form(algorithm)), "{algorithm} is never one of several limits");
    }
}
