//! The rows that every limiter decides alike, by each script.

use std::sync::Arc;

use limiter_test::conformance;

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
    conformance::gcra(|policy| store.limiter(policy));
    conformance::windows(|policy| store.limiter(policy));
    conformance::several(|policy| store.limiter(policy));
    conformance::operations(|policy| store.limiter(policy));
    conformance::spans(|policy| store.limiter(policy));
    conformance::spans_by_micros(|policy| store.limiter(policy));
}
