//! Lists of demands on several subjects.

use std::time::Duration;

use limiter_core::{Cost, Demand, Key, Policy, decide};
use tokio::time::advance;

use crate::{client::Double, policy};

/// A list across slots may give back what it has charged of a key, so the denials of its keys are cached for a short
/// time. Those of others are not.
#[tokio::test(start_paused = true)]
async fn a_list_across_slots_shortens_no_other_denials() {
    let double = Double::by_slot();
    let limiter = double.limiter_with(&policy("1/min"), |builder| builder);
    let other = limiter.sibling(&Policy::parse("other", "1/h").unwrap()).unwrap();
    let (one, two) = (Key::from("one"), Key::from("two"));
    let demands = [Demand::new(&limiter, &one, Cost::ONE), Demand::new(&other, &two, Cost::ONE)];
    assert!(decide(&demands).await.unwrap().is_admitted());

    for _ in 0..2 {
        let _ = limiter.check("alice").await.unwrap();
    }
    let calls = double.calls();
    advance(Duration::from_millis(500)).await;
    assert!(!limiter.check("alice").await.unwrap().is_admitted());
    assert_eq!(double.calls(), calls, "the denial is cached for a second");
}
