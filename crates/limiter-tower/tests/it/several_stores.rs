//! Rules in several stores, of which one fails.

use std::io;

use crate::*;

const KINDS: [ErrorKind; 3] =
    [ErrorKind::Unavailable, ErrorKind::Undetermined, ErrorKind::Unexpected];

fn memory(name: &str) -> Memory {
    hourly(name, 2)
}

/// Returns a limiter in a store of its own, for two requests.
fn store(name: &str) -> Deferred {
    Deferred::new(memory(name))
}

fn failing_with(name: &str, kind: ErrorKind) -> Deferred {
    let store = store(name);
    store.fail_with(Some(Error::new(kind, "the store fails")));
    store
}

/// Returns how many permits were charged, by address or for all.
fn used(limiter: &Memory) -> u64 {
    limiter.peek(CLIENT).used() + limiter.peek("all").used()
}

#[tokio::test]
async fn the_rules_of_other_stores_are_enforced() {
    for kind in KINDS {
        for is_first in [true, false] {
            let (failing, healthy) = (failing_with("failing", kind), store("healthy"));
            let rules = match is_first {
                true => [by_address(failing.clone()), for_all(healthy)],
                false => [by_address(healthy), for_all(failing.clone())],
            };
            let (layer, events) = Events::of(layer_of(rules));
            let service = layer.layer(service_fn(hello));
            let case = format!("{kind:?}, first: {is_first}");
            assert_eq!(statuses(&service, 3).await, [200, 200, 429], "{case}");
            let expected = ["allowed", "allowed", "denied"];
            assert_eq!(events.of_rule("healthy"), expected, "{case}");
            // It is called once for a request, and not for one that a rule before it refuses.
            let calls = if is_first { 3 } else { 2 };
            let expected = vec!["error_allowed".to_owned(); calls];
            assert_eq!(
                (failing.calls(), events.of_rule("failing")),
                (calls as u64, expected),
                "{case}"
            );
        }
    }
}

#[tokio::test]
async fn a_store_that_denies_charges_and_reports_no_other() {
    for kind in KINDS {
        for (is_first, in_memory) in [(true, true), (true, false), (false, true), (false, false)] {
            let (charged, failing) = (memory("healthy"), failing_with("failing", kind));
            let healthy: Arc<dyn Limiter> = match in_memory {
                true => Arc::new(charged.clone()),
                false => Arc::new(Deferred::new(charged.clone())),
            };
            let denies = |rule: Rule| rule.on_store_failure(OnStoreFailure::Deny);
            let rules = match is_first {
                true => [denies(by_address(failing)), for_all(healthy)],
                false => [by_address(healthy), denies(for_all(failing))],
            };
            let (layer, events) = Events::of(layer_of(rules));
            let service = layer.layer(service_fn(hello));
            let case = format!("{kind:?}, first: {is_first}, the other in memory: {in_memory}");
            assert_eq!(statuses(&service, 3).await, [503; 3], "{case}");
            // A refund to a store is on its way for a while.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            assert_eq!((used(&charged), events.of_rule("healthy")), (0, vec![]), "{case}");
            assert_eq!(events.of_rule("failing"), ["error_denied"; 3], "{case}");
        }
    }
}

#[tokio::test]
async fn a_store_that_has_just_failed_is_not_called_again() {
    for kind in KINDS {
        let (first, second) = (failing_with("first", kind), failing_with("second", kind));
        let sibling = |of: &Deferred, name| {
            Limiter::sibling(of, &Policy::gcra(name, Quota::per_hour(2))).unwrap()
        };
        let keyed = |limiter, key: &'static str| {
            Rule::new(limiter, key_fn(move |_| Some(key.into())).assume_verified().or_reject())
        };
        let (healthy, _) = limiter_of(Policy::gcra("healthy", Quota::per_hour(9)));
        let rules = [
            keyed(sibling(&first, "a"), "a"),
            keyed(sibling(&second, "b"), "b"),
            by_address(Deferred::new(healthy.clone())),
            for_all(first.clone()),
            for_all(second.clone()),
        ];
        let service = layer_of(rules).layer(service_fn(hello));
        for requests in 1..=3 {
            assert_eq!(send(&service, request()).await.status(), 200);
            assert_eq!((first.calls(), second.calls()), (requests, requests), "{kind:?}");
        }
        assert_eq!(used(&healthy), 3);
    }
}

/// Such as the fault of a call to Redis.
#[tokio::test]
async fn an_observer_finds_the_cause_of_an_error_whatever_the_rules_are() {
    let late = || Error::new(ErrorKind::Undetermined, "late").with_source(io::Error::other("why"));
    let failing = || {
        let store = store("failing");
        store.fail_with(Some(late()));
        store
    };
    let block = Block::after(9).within(Duration::from_secs(60)).lasting(Duration::from_secs(60));
    let wait = Wait::up_to(Duration::from_secs(1));
    for (case, layer) in [
        ("alone", layer_of([by_address(failing())])),
        ("chargeable", layer_of([by_address(failing())]).chargeable()),
        ("several", layer_of([by_address(failing()), for_all(store("healthy"))])),
        ("one store", {
            let failing = failing();
            let policy = Policy::gcra("sibling", Quota::per_hour(2));
            let sibling = Limiter::sibling(&failing, &policy).unwrap();
            layer_of([by_address(failing), for_all(sibling)])
        }),
        ("block", layer_of([by_address(failing()).block(block).unwrap()])),
        ("wait", layer_of([Rule::waiting(failing(), ClientIp::peer(), wait)])),
        ("shadow", {
            let shadow = Rule::new(failing(), FixedKey::new("all"));
            layer_of([shadow.with_mode(Mode::SHADOW), by_address(memory("a"))])
        }),
    ] {
        let causes = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&causes);
        let layer = layer.observe(move |event| {
            if let Some(error) = event.error {
                let cause = std::error::Error::source(error).and_then(|it| it.downcast_ref());
                seen.lock().unwrap().push(cause.map(io::Error::to_string));
            }
        });
        assert_eq!(statuses(&layer.layer(service_fn(hello)), 1).await, [200], "{case}");
        let causes = causes.lock().unwrap();
        assert!(
            !causes.is_empty() && causes.iter().all(|it| it.as_deref() == Some("why")),
            "{case}: {causes:?}"
        );
    }
}
