//! Random schedules find each wrong variant, and no fault of the right one.

use limiter_test::blocks::{Composed, Random, Rules, Step, Strike, Variant};

const SEEDS: u64 = 2_000;

/// Runs a random schedule, and returns whether the composed states do what the rules say. With strikes that arrive
/// `together`, each of their steps may run before or after those of others.
fn keeps_the_rules(variant: Variant, together: bool, seed: u64) -> bool {
    let mut random = Random::new(seed);
    let settings = random.settings();
    let (mut rules, mut composed) = (Rules::new(settings), Composed::new(settings, variant));
    let mut now = 1_000_000;
    for _ in 0..100 {
        match random.step(&settings, rules.wait(now), together) {
            Step::Wait(by) => {
                now += by;
                composed.pass(by);
            }
            Step::Strikes(number) if together => {
                let expected: Vec<_> = (0..number).filter_map(|_| rules.strike(now)).collect();
                let (lengths, shortest_wait) = composed.strike_together(number, now, &mut random);
                // Once the strikes are full, the key is refused.
                if lengths != expected || shortest_wait == Some(0) {
                    return false;
                }
            }
            Step::Strikes(_) => {
                if composed.strike(now) != rules.strike(now) {
                    return false;
                }
            }
            Step::WithoutState => {
                if composed.strike_without_state(now).is_some() {
                    return false;
                }
            }
            Step::Success => {
                rules.success();
                composed.success();
            }
            Step::Reset => {
                rules.reset();
                composed.reset();
            }
        }
        if composed.wait(now) != rules.wait(now) {
            return false;
        }
    }
    true
}

/// Runs strikes that stall between their steps, and returns whether each block lasted as long as it was said to.
fn keeps_ends(variant: Variant, seed: u64) -> bool {
    let mut random = Random::new(seed);
    let settings = random.settings();
    let mut composed = Composed::new(settings, variant);
    let (mut strikes, mut now) = (Vec::new(), 1_000_000);
    for _ in 0..400 {
        if strikes.len() < 4 {
            strikes.push(Strike::Arrived);
        }
        let index = random.below(strikes.len());
        now += random.of(&[0, 0, 1, 5, settings.within / 3]);
        strikes[index] = composed.next(strikes[index], now);
        if matches!(strikes[index], Strike::Written(length) if composed.wait(now) < length) {
            return false;
        }
        if matches!(strikes[index], Strike::Over(_)) {
            strikes.swap_remove(index);
        }
    }
    !composed.has_moved()
}

#[test]
fn the_right_variant_keeps_the_rules() {
    for seed in 0..SEEDS {
        assert!(keeps_the_rules(Variant::Right, false, seed), "seed {seed}");
        assert!(keeps_the_rules(Variant::Right, true, seed), "seed {seed}, together");
        assert!(keeps_ends(Variant::Right, seed), "seed {seed}, stalled");
    }
}

#[test]
fn each_wrong_variant_is_found() {
    for variant in Variant::WRONG_ALONE {
        let found = (0..SEEDS).filter(|seed| !keeps_the_rules(variant, false, *seed)).count();
        println!("{variant:?}: {found} of {SEEDS}");
        assert!(found > 0, "{variant:?}");
    }
    for variant in Variant::WRONG_TOGETHER {
        let alone = (0..SEEDS).filter(|seed| !keeps_the_rules(variant, false, *seed)).count();
        let found = (0..SEEDS).filter(|seed| !keeps_the_rules(variant, true, *seed)).count();
        println!("{variant:?}: {found} of {SEEDS} together, {alone} alone");
        assert!(found > 0, "{variant:?}");
    }
    let found = (0..SEEDS).filter(|seed| !keeps_ends(Variant::WRONG_STALLED, *seed)).count();
    println!("{:?}: {found} of {SEEDS} stalled", Variant::WRONG_STALLED);
    assert!(found > 0);
}
