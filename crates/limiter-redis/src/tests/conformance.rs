//! The rows that every limiter decides alike, by each script.

use std::sync::Arc;

use limiter_test::conformance::{
    BY_MICROS, CHARGES, GCRA, OPERATIONS, SEVERAL, SPANS, WINDOWS, run,
};

use super::store::Store;

#[test]
fn a_server_conforms() {
    all_conform(&Store::new());
}

#[test]
fn a_cluster_conforms() {
    all_conform(&Store::on_cluster());
}

fn all_conform(store: &Arc<Store>) {
    let files = [GCRA, WINDOWS, SEVERAL, OPERATIONS, CHARGES, SPANS, BY_MICROS];
    run(&files, |policy| store.limiter(policy));
}
