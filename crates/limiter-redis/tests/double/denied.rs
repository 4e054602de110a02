//! Commands that a user may not call.

use std::time::Duration;

use limiter_core::ErrorKind;
use limiter_double::Value;
use limiter_redis::{RedisInFlight, scripts::IN_FLIGHT_COMMANDS};

use crate::client::Double;

#[tokio::test(start_paused = true)]
async fn permits_in_flight_leave_no_key_without_an_expiry() {
    for command in IN_FLIGHT_COMMANDS.iter().chain(&["PEXPIRE"]) {
        let double = Double::new();
        let limiter = RedisInFlight::builder("uploads", 2)
            .expires_after(Duration::from_secs(3))
            .breaker(10, Duration::from_millis(1))
            .clock(double.clock())
            .build_on(double.clone())
            .unwrap();
        double.server().deny(&[command]);
        let mut held = Vec::new();
        for _ in 0..4 {
            match limiter.enter("alice").await {
                Ok(entry) => held.extend(entry.into_permit()),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Unexpected, "{command}: {error}");
                    assert!(error.to_string().contains(command), "{command}: {error}");
                }
            }
        }
        assert!(held.len() <= 2, "{command}");
        let server = double.server();
        for (key, stored) in server.keys() {
            let Value::SortedSet(members) = &stored.value else { panic!("{key:?}") };
            assert!(stored.expires_at.is_some(), "{command}: {members:?}");
        }
    }
}
