//! The rows that every limiter decides alike, by each script.

use limiter_test::conformance;

use super::store::Store;

#[test]
fn gcra_conforms() {
    let store = Store::new();
    conformance::gcra(|policy| store.limiter(policy));
}

#[test]
fn windows_conform() {
    let store = Store::new();
    conformance::windows(|policy| store.limiter(policy));
}

#[test]
fn several_limits_conform() {
    let store = Store::new();
    conformance::several(|policy| store.limiter(policy));
}

#[test]
fn every_operation_conforms() {
    let store = Store::new();
    conformance::operations(|policy| store.limiter(policy));
}

#[test]
fn a_cluster_conforms_in_every_algorithm_and_operation() {
    let store = Store::on_cluster();
    conformance::gcra(|policy| store.limiter(policy));
    conformance::windows(|policy| store.limiter(policy));
    conformance::several(|policy| store.limiter(policy));
    conformance::operations(|policy| store.limiter(policy));
}
