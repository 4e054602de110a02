//! The rows that every limiter returns alike.

use limiter_core::Policy;
use limiter_test::{
    conformance,
    subject::{Bare, InMemory, Operations},
};

fn conforms<S: Operations>(make: impl Fn(Policy) -> S) {
    conformance::gcra(&make);
    conformance::windows(&make);
    conformance::several(&make);
    conformance::operations(&make);
    conformance::spans(&make);
}

#[test]
fn the_memory_limiter_conforms() {
    conforms(InMemory::new);
}

#[test]
fn the_transitions_conform() {
    conforms(Bare::new);
}
