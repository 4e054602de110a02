//! The rows that every limiter answers alike.

use std::time::Duration;

use limiter_core::algorithm::Single;
use limiter_test::{
    conformance,
    subject::{Bare, InMemory},
};

#[test]
fn the_memory_limiter_conforms() {
    conformance::gcra(InMemory::new);
    conformance::buckets(InMemory::new);
    conformance::windows(InMemory::new);
    conformance::several(InMemory::new);
}

#[test]
fn the_memory_limiter_conforms_in_every_operation() {
    conformance::operations(InMemory::new);
}

#[test]
fn the_bare_algorithms_conform() {
    let bare = |policy: limiter_core::Policy| {
        let limit = &policy.limits()[0];
        let algorithm = Single::new(limit.kind(), limit.quota()).unwrap();
        Bare::new(algorithm, Duration::from_nanos(1))
    };
    conformance::gcra(bare);
    conformance::windows(bare);
}
