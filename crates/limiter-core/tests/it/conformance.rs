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
    conformance::gcra(|quota| {
        Bare::new(Gcra::new(&quota).unwrap(), std::time::Duration::from_nanos(1))
    });
}
