//! How many random cases properties try, and where failing ones are stored.

use proptest::test_runner::Config;

/// The number of cases to which all others are in proportion: proptest's default.
const DEFAULT: u64 = 256;

/// Returns settings for a `TestRunner` in the source file `file!()`, which tries `usual` [`cases`].
///
/// The seed of a failing case is stored in `proptest-regressions` beside the folder of the sources. Later runs repeat
/// it first. Commit it. The macro `proptest!` does the same without this function.
///
/// The random cases follow from the variable `PROPTEST_RNG_SEED`, which `.cargo/config.toml` sets for all commands of Cargo.
#[must_use]
pub fn config(file: &'static str, usual: u32) -> Config {
    let default = Config::with_source_file(file);
    let cases = in_proportion(usual, default.cases);
    Config { cases, max_global_rejects: cases.max(default.max_global_rejects), ..default }
}

/// Returns how many random cases to try where `usual` are enough: in proportion to the variable `PROPTEST_CASES`,
/// which is 256 unless it is set, and at least one.
#[must_use]
pub fn cases(usual: u32) -> u32 {
    in_proportion(usual, Config::default().cases)
}

fn in_proportion(usual: u32, cases: u32) -> u32 {
    let scaled = u64::from(usual) * u64::from(cases) / DEFAULT;
    u32::try_from(scaled.max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use proptest::{
        prelude::any,
        test_runner::{RngSeed, TestCaseError, TestRunner},
    };

    use super::*;

    #[test]
    fn numbers_of_cases_are_in_proportion() {
        for (usual, cases, expected) in [
            (64, 256, 64),
            (64, 1, 1),
            (20_000, 64, 5_000),
            (512, 3_000, 6_000),
            (u32::MAX, 512, u32::MAX),
        ] {
            assert_eq!(in_proportion(usual, cases), expected);
        }
    }

    /// A run of Cargo has a seed, so that it tries the cases of all others.
    #[test]
    fn the_seed_is_fixed() {
        let is_fixed = matches!(config(file!(), 256).rng_seed, RngSeed::Fixed(_));
        assert!(
            is_fixed,
            "PROPTEST_RNG_SEED is not set: run Cargo in the repository, by .cargo/config.toml"
        );
    }

    /// The first case that a run tries after a failure is the one that failed, whatever its own seed.
    #[test]
    fn a_failing_case_is_stored_and_repeated() {
        let stored =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("proptest-regressions/properties.txt");
        assert!(!stored.exists(), "{} is left from a run that was killed", stored.display());
        let first = || {
            let mut tried = None;
            let tried_first = std::cell::RefCell::new(&mut tried);
            let config = Config { rng_seed: RngSeed::Random, ..config(file!(), 256) };
            let result = TestRunner::new(config).run(&any::<u64>(), |number| {
                tried_first.borrow_mut().get_or_insert(number);
                if number < 1_000_000 { Ok(()) } else { Err(TestCaseError::fail("large")) }
            });
            assert!(result.is_err());
            tried
        };
        let (_, second, third) = (first(), first(), first());
        fs::remove_dir_all(stored.parent().unwrap()).unwrap();
        assert_eq!(second, third);
    }
}
