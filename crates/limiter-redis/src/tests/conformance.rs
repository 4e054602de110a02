//! The rows that every limiter answers alike.

use std::{collections::HashMap, time::Duration};

use limiter_core::{Cost, Decision, Policy, Timestamp};
use limiter_test::{conformance, subject::Subject};

use super::store::Store;
use crate::scripts::gcra::{Gcra, twin::Tat};

#[test]
fn the_gcra_script_conforms() {
    let store = Store::new();
    conformance::gcra(|policy| store.limiter(policy));
}

#[test]
fn the_gcra_twin_conforms() {
    conformance::gcra(Twin::new);
}

/// The twin, with the plainest store there is.
struct Twin {
    gcra: Gcra,
    states: HashMap<String, Tat>,
}

impl Twin {
    #[expect(clippy::needless_pass_by_value, reason = "limiters are made of their policies")]
    fn new(policy: Policy) -> Self {
        Self { gcra: Gcra::new(policy.limits()[0].quota()).unwrap(), states: HashMap::new() }
    }
}

impl Subject for Twin {
    fn tick(&self) -> Duration {
        Duration::from_micros(1)
    }

    fn decide(&mut self, now: Timestamp, key: &str, cost: Cost) -> Decision {
        self.gcra.decide(self.states.entry(key.to_owned()).or_default(), now, cost)
    }
}
