//! Responses that switch protocols: WebSockets over HTTP/1 and 2.

use std::sync::mpsc::{Receiver, channel};

use limiter_tower::in_flight::HoldGuard;

use super::{counter::Counter, *};

async fn answer(status: StatusCode) -> Answer {
    let mut response = Response::new(Stream::default());
    *response.status_mut() = status;
    Ok(response)
}

/// Returns a service whose handlers hold their permits, which the test receives.
fn holding(rule: &InFlightRule, status: StatusCode) -> (Limited, Receiver<HoldGuard>) {
    let (sender, receiver) = channel();
    let service = behind(rule, move |request: Request<Body>| {
        sender.send(permit_of(&request).hold().unwrap()).unwrap();
        answer(status)
    });
    (service, receiver)
}

#[tokio::test]
async fn an_upgrade_that_is_held_keeps_its_permit_until_the_guard_is_dropped() {
    for (method, status) in [(Method::GET, 101), (Method::CONNECT, 200)] {
        let (rule, events) = Events::of(rule(1).0);
        let (service, guards) = holding(&rule, StatusCode::from_u16(status).unwrap());
        drop(send_by(&service, method.clone()).await);
        assert_eq!(rule.held(), 1);
        assert_eq!(send_by(&service, method).await.status(), 429);
        let guard = guards.recv().unwrap();
        assert!(!guard.is_lost());
        drop(guard);
        assert_eq!(rule.held(), 0);
        assert_eq!(events.take(), ["allowed", "denied"]);
    }
}

#[tokio::test]
async fn an_upgrade_without_a_hold_gives_its_permit_back_and_is_reported() {
    for (method, status, is_upgrade) in [
        (Method::GET, 101, true),
        (Method::CONNECT, 200, true),
        (Method::CONNECT, 403, false),
        (Method::GET, 200, false),
    ] {
        let (rule, events) = Events::of(rule(1).0);
        let status = StatusCode::from_u16(status).unwrap();
        let service = behind(&rule, move |_| answer(status));
        for _ in 0..2 {
            drop(send_by(&service, method.clone()).await);
            assert_eq!(rule.held(), 0);
            let expected: &[&str] =
                if is_upgrade { &["allowed", "upgrade_not_held"] } else { &["allowed"] };
            assert_eq!(events.take(), expected, "{method} {status}");
        }
    }
}

#[tokio::test]
async fn a_guard_holds_the_permits_of_all_layers() {
    let outer = Counter::new("outer", 1);
    let inner = rule(1).0;
    let (service, guards) = holding(&inner, StatusCode::SWITCHING_PROTOCOLS);
    let layer = InFlightLayer::all([rule_of(&outer)]);
    let service = behind_layer(&layer, move |request| {
        let mut inner = service.clone();
        async move {
            use tower::{Service, ServiceExt};
            let response = inner.ready().await.unwrap().call(request).await.unwrap();
            Ok(response.map(|_| Stream::default()))
        }
    });
    drop(send(&service).await);
    assert_eq!((outer.held(), inner.held()), (1, 1));
    drop(guards.recv().unwrap());
    assert_eq!((outer.held(), inner.held()), (0, 0));
}

#[tokio::test]
async fn a_request_that_is_not_counted_can_be_held_as_well() {
    let rule = rule(1).0;
    let layer = InFlightLayer::all([rule.clone()]);
    let service = behind_layer(&layer, |request| {
        assert!(permit_of(&request).hold().is_some());
        answer(StatusCode::SWITCHING_PROTOCOLS)
    });
    layer.switch_off();
    assert_eq!(send(&service).await.status(), 101);
    assert_eq!(rule.held(), 0);
}
