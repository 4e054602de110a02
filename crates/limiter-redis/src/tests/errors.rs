//! Errors that each operation returns.

use std::time::Duration;

use limiter_core::{Cost, Error, ErrorKind, Key};

use super::{
    client::{Client, Fate},
    store::{Store, policy, unique},
};
use crate::RedisLimiter;

/// Returns the errors of all operations with a key.
fn errors(store: &Store, limiter: &RedisLimiter<Client>, key: &Key<'_>) -> [Error; 7] {
    let (one, now) = (Cost::ONE, Duration::ZERO);
    [
        store.settle(limiter.check(key)).unwrap_err(),
        store.settle(limiter.peek(key)).unwrap_err(),
        store.settle(limiter.reserve(key, one, now)).unwrap_err(),
        store.settle(limiter.acquire(key, one, None)).unwrap_err(),
        store.settle(limiter.take_up_to(key, one)).unwrap_err(),
        store.settle(limiter.charge(key, one)).unwrap_err(),
        store.settle(limiter.reset(key)).unwrap_err(),
    ]
}

/// Until its circuit breaker opens, and after that.
#[test]
fn each_operation_returns_the_error_of_a_store_that_fails() {
    let store = Store::new();
    let limiter = store.limiter_with(&unique(), &policy("3/day"), |builder| {
        builder.deadline(Duration::from_millis(50))
    });
    store.client.set_fate(|_| Fate::LostRequest);
    let mut kinds = Vec::new();
    for _ in 0..2 {
        for error in errors(&store, &limiter, &"key".into()) {
            assert!(error.to_string().starts_with("policy \"test\": "), "{error}");
            kinds.push(error.kind());
        }
    }
    kinds.dedup();
    assert_eq!(kinds, [ErrorKind::Undetermined, ErrorKind::Unavailable]);
}

#[test]
fn each_operation_refuses_a_secret_without_a_shared_secret() {
    let store = Store::new();
    let limiter = store.limiter_of(&unique(), &policy("3/day"), 0);
    for error in errors(&store, &limiter, &Key::secret("sk-1")) {
        assert_eq!(error.kind(), ErrorKind::InvalidSetting, "{error}");
        assert!(error.to_string().contains("set Builder::key_secret"), "{error}");
    }
    assert_eq!(store.client.sent().len(), 0);
}
