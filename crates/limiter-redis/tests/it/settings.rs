//! Settings that can't be served are refused when they are given.

use std::time::Duration;

use limiter_core::{ErrorKind, Policy};
use limiter_redis::connect;

use crate::{builder, server};

#[tokio::test]
async fn a_bad_address_is_refused_without_its_password() {
    const SCHEMES: &str = "it must begin with redis://, redis-sentinel:// or redis-cluster://, or \
                           the same with rediss or valkey, or redis+unix://";

    for (url, message) in [
        ("nonsense", &*format!("invalid server address \"***\": {SCHEMES}")),
        ("http://user:secret@host:1", &*format!("invalid server address \"***\": {SCHEMES}")),
        (
            "redis-sentinel://user:secret@host:1",
            "invalid server address \"redis-sentinel://***@host:1\": sentinelServiceName is missing; \
             add ?sentinelServiceName=NAME",
        ),
        (
            "redis://",
            "invalid server address \"redis://\": the host is missing; write redis://host:6379",
        ),
        (
            "redis-cluster://user:secret@host:1/3?node=host:2",
            "invalid server address \"redis-cluster://***@host:1/***\": a cluster has only database 0; \
             remove the path",
        ),
    ] {
        let error = connect(url).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (ErrorKind::InvalidSetting, message)
        );
    }
}

#[tokio::test]
async fn settings_out_of_range_are_refused() {
    let url = server().await;
    for (deadline, message) in [
        (Duration::ZERO, "invalid deadline 0ns: use 1ms to 60s"),
        (Duration::MAX, "invalid deadline 18446744073709551615.999999999s: use 1ms to 60s"),
    ] {
        let error = builder(1).deadline(deadline).connect(&url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSetting);
        assert_eq!(error.to_string(), message);
    }
    let error = builder(1).prefix("").connect(&url).await.unwrap_err();
    assert_eq!(error.to_string(), "invalid key prefix \"\": use 1 to 64 bytes");
    let error = builder(1).denial_cache(usize::MAX).connect(&url).await.unwrap_err();
    assert!(error.to_string().starts_with("invalid denial cache of "), "{error}");
}

#[tokio::test]
async fn a_policy_of_other_families_is_refused() {
    let limiter = builder(1).connect(&server().await).await.unwrap();
    assert!(
        limiter.with_policy(&Policy::parse("queue", "5/s by leaky-queue depth 3").unwrap()).is_ok()
    );
    for text in ["5/s by fixed-window", "5/s by sliding-log"] {
        let error = limiter.with_policy(&Policy::parse("other", text).unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSetting);
        assert!(error.to_string().starts_with("invalid policy \"other\": "), "{error}");
    }
}
