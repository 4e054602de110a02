//! Replies that no script of ours gives.

use limiter_core::{Cost, Policy};

use crate::scripts::{Plan, Scripts};

#[test]
fn no_reply_is_more_than_an_error() {
    let numbers = [i64::MIN, -1, 0, 1, i64::MAX];
    for policy in [
        "10/s",
        "10/s by leaky-queue depth 5",
        "10/s by fixed-window",
        "10/s by aligned-window",
        "10/s by sliding-counter",
        "10/s by sub-windows 10 slots",
        "10/s by sliding-log",
    ] {
        let policy = Policy::parse("api", policy).unwrap();
        let plan = Plan::new(Scripts::shared(), &policy, None);
        for length in 0..=5_u32 {
            for each in 0..5_usize.pow(length) {
                let number = |place| numbers[each / 5_usize.pow(place) % 5];
                let reply: Vec<i64> = (0..length).map(number).collect();
                let _ = plan.refunded(&reply);
                let _ = plan.peeked(&reply);
                let Some(taken) = plan.taken(&reply, Cost::ONE) else { continue };
                if let Some(charged) = taken.charged {
                    let _ = (charged.delay(), plan.refund(&charged, 1));
                }
            }
        }
    }
}
