//! The rows that every limiter answers alike.

use limiter_core::algorithm::Gcra;
use limiter_test::{
    conformance,
    subject::{Bare, InMemory},
};

#[test]
fn the_memory_limiter_conforms() {
    conformance::gcra(InMemory::new);
}

#[test]
fn the_bare_algorithm_conforms() {
    conformance::gcra(|policy| {
        let gcra = Gcra::new(policy.limits()[0].quota()).unwrap();
        Bare::new(gcra, std::time::Duration::from_nanos(1))
    });
}
