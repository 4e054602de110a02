//! The rows that every limiter answers alike.

use std::time::Duration;

use limiter_test::{conformance, subject::Bare};

use super::store::Store;
use crate::scripts::gcra::Gcra;

#[test]
fn the_gcra_script_conforms() {
    let store = Store::new();
    conformance::gcra(|quota| store.limiter(quota));
}

#[test]
fn the_gcra_twin_conforms() {
    conformance::gcra(|quota| Bare::new(Gcra::new(&quota).unwrap(), Duration::from_micros(1)));
}
