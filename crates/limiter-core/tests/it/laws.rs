//! The laws as properties, in memory.

use limiter_core::algorithm::Resolution::Nanos;
use limiter_test::{
    laws,
    schedule::{Time, scenarios},
    subject::InMemory,
};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..Default::default() })]

    #[test]
    fn law_1_never_over(scenario in scenarios(Nanos, Time::Forward, 60)) {
        laws::never_over(&mut InMemory::new(scenario.quota), &scenario)?;
    }

    #[test]
    fn law_1_never_stingy(scenario in scenarios(Nanos, Time::Forward, 60)) {
        laws::never_stingy(&mut InMemory::new(scenario.quota), &scenario)?;
    }

    #[test]
    fn law_2_refusal_changes_nothing(scenario in scenarios(Nanos, Time::Forward, 60)) {
        laws::refusal_changes_nothing(&mut InMemory::new(scenario.quota), &scenario)?;
    }

    #[test]
    fn law_3_retry_after_is_exact(scenario in scenarios(Nanos, Time::AnyWay, 40)) {
        laws::retry_after_is_exact(&mut InMemory::new(scenario.quota), &scenario)?;
    }

    #[test]
    fn law_4_recovered_equals_absent(scenario in scenarios(Nanos, Time::Forward, 20)) {
        laws::recovered_equals_absent(&mut InMemory::new(scenario.quota), &scenario)?;
    }

    #[test]
    fn law_5_a_clock_that_steps_back_gives_nothing(scenario in scenarios(Nanos, Time::AnyWay, 60)) {
        laws::never_over(&mut InMemory::new(scenario.quota), &scenario)?;
    }

    #[test]
    fn law_5_no_wait_outlasts_a_recovery(scenario in scenarios(Nanos, Time::AnyWay, 60)) {
        laws::no_wait_outlasts_a_recovery(&mut InMemory::new(scenario.quota), &scenario)?;
    }

    #[test]
    fn law_10_decisions_are_coherent(scenario in scenarios(Nanos, Time::AnyWay, 60)) {
        laws::decisions_are_coherent(&mut InMemory::new(scenario.quota), &scenario)?;
    }
}
