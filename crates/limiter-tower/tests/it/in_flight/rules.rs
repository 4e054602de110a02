//! Rules as values: limits of plans and priorities, changes, and use without a layer.

use std::panic::{AssertUnwindSafe, catch_unwind};

use limiter_tower::observe::Event;

use super::*;

fn of_path(path: &str) -> Request<Body> {
    Request::builder().uri(path).body(Body::default()).unwrap()
}

#[tokio::test]
async fn sheddable_requests_leave_room_for_the_others() {
    let (rule, counter) = rule(5);
    let rule = rule.limit_by(|head, own| if head.path() == "/batch" { own * 4 / 5 } else { own });
    let service = behind(&rule, two_frames);
    let mut responses = Vec::new();
    for (path, status) in [
        ("/batch", 200),
        ("/batch", 200),
        ("/batch", 200),
        ("/batch", 200),
        ("/batch", 429),
        ("/", 200),
        ("/", 429),
    ] {
        let response = service.clone().oneshot(of_path(path)).await.unwrap();
        assert_eq!(response.status(), status, "{path}");
        responses.push(response);
    }
    assert_eq!(counter.held(), 5);
    // A change of the limiter's own limit changes both.
    rule.set_limit(10).unwrap();
    let statuses = ["/batch"; 4].map(|path| service.clone().oneshot(of_path(path)));
    let mut admitted = 0;
    for response in statuses {
        let response = response.await.unwrap();
        admitted += usize::from(response.status() == StatusCode::OK);
        responses.push(response);
    }
    assert_eq!(admitted, 3);
}

#[tokio::test]
async fn a_limit_of_zero_refuses() {
    let service = behind(&rule(5).0.limit_by(|_, _| 0), two_frames);
    let response = send(&service).await;
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["ratelimit-policy"], r#""uploads";q=0;qu="concurrent-requests""#);
}

#[tokio::test]
async fn a_job_enters_a_rule_without_a_layer() {
    let (rule, counter) = rule(2);
    let (rule, events) = Events::of(rule);
    let key = Key::from("job");
    let guards = [rule.enter(&key).await.unwrap(), rule.enter(&key).await.unwrap()];
    let refused = rule.enter(&key).await.unwrap_err();
    assert!(matches!(refused.reason(), Reason::InFlight(_)));
    assert_eq!(
        (refused.status().as_u16(), refused.to_string()),
        (429, "too many requests in flight".to_owned())
    );
    assert_eq!((rule.held(), rule.peek(&key).await.unwrap().held()), (2, 2));
    let third = rule.enter(&key).limit(3).await.unwrap();
    drop((guards, third));
    assert_eq!((rule.held(), counter.held()), (0, 0));
    assert_eq!(events.take(), ["allowed", "allowed", "denied", "allowed"]);
}

#[tokio::test]
async fn a_handler_enters_a_rule_by_its_request() {
    let (rule, _counter) = rule(1);
    let rule = rule.limit_by(|head, own| if head.path() == "/batch" { 0 } else { own });
    let parts = of_path("/").into_parts().0;
    let guard = rule.enter_request(&parts).await.unwrap();
    assert_eq!(rule.peek(&rule.key(&parts).unwrap()).await.unwrap().held(), 1);
    rule.enter_request(&parts).await.unwrap_err();
    drop(guard);
    let batch = of_path("/batch").into_parts().0;
    rule.enter_request(&batch).await.unwrap_err();
    let allowed = rule.enter_request(&batch).limit(1).await;
    assert!(allowed.is_ok());
    // The key alone does not say under which limit.
    let refused = rule.enter("all").await.unwrap_err();
    assert!(matches!(refused.reason(), Reason::Misconfigured));
}

#[tokio::test]
async fn a_shadow_and_a_failed_store_return_a_guard_that_holds_nothing() {
    let (rule, _counter) = rule(1);
    let key = Key::from("all");
    let first = rule.enter(&key).await.unwrap();
    rule.set_mode(Mode::SHADOW);
    let second = rule.enter(&key).await.unwrap();
    assert_eq!((rule.held(), second.is_lost()), (1, false));
    drop((first, second));
    let failing = rule_of(&Counter::new("uploads", 1).failing());
    let guard = failing.enter(&key).await.unwrap();
    assert!(!guard.is_lost());
    assert_eq!(failing.held(), 0);
}

#[tokio::test]
async fn reset_forgets_the_permits_of_a_key() {
    let (rule, _counter) = rule(1);
    let service = behind(&rule, two_frames);
    let old = send(&service).await;
    rule.reset(&rule.key(&Request::new(())).unwrap()).await.unwrap();
    let new = send(&service).await;
    assert_eq!((new.status().as_u16(), rule.held()), (200, 2));
    drop((old, new));
}

#[tokio::test]
async fn the_observer_of_a_layer_receives_the_events_of_all_its_rules() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let of_layer = Arc::clone(&seen);
    let observe = move |event: &Event<'_>| {
        let asked = (event.key.is_some(), event.elapsed.is_some());
        let text = format!("{} {} {asked:?}", event.rule, event.outcome.name());
        of_layer.lock().unwrap().push(text);
    };
    let (own, events) = Events::of(rule_of(&Counter::new("own", 5).losable()));
    let all = Counter::new("all", 5).losable();
    let of_all = rule_of(&all);
    let layer = InFlightLayer::all([own, of_all.clone()]).observe(observe);
    let response = send(&behind_layer(&layer, two_frames)).await;
    all.lose();
    drop(response);
    let expected =
        ["own allowed (true, true)", "all allowed (true, true)", "all lost (true, false)"];
    assert_eq!(*seen.lock().unwrap(), expected);
    // In place of the rule's own, and only in the layer.
    drop(of_all.enter("job").await);
    assert_eq!((seen.lock().unwrap().len(), events.take()), (expected.len(), vec![]));
}

/// Returns the error of a layer that can't have these rules, which is also the text of the panic.
fn error_of<const N: usize>(rules: [InFlightRule; N]) -> String {
    let error = InFlightLayer::try_all(rules.clone()).unwrap_err().to_string();
    let panic = catch_unwind(AssertUnwindSafe(|| InFlightLayer::all(rules))).unwrap_err();
    assert_eq!(panic.downcast_ref::<String>(), Some(&error));
    error
}

#[test]
fn a_layer_refuses_rules_that_bound_nothing() {
    let own = |name| InFlightRule::new(Counter::new(name, 1), ClientIp::peer());
    let chosen = || {
        let key = HeaderKey::new(HeaderName::from_static("x-user")).or_reject();
        InFlightRule::new(Counter::new("chosen", 1), key)
    };
    assert_eq!(error_of([]), "the layer has no limits: give it at least one");
    assert_eq!(error_of([own("a"), own("a")]), r#"two limits are named "a"; rename one"#);
    let [one, other] = [own("a"), own("a")];
    drop(InFlightLayer::all([one.clone(), other.shown_as("b").unwrap()]));
    assert_eq!(
        error_of([one.clone(), one.shown_as("b").unwrap()]),
        r#"the limits ["a", "b"] count the permits of one limiter: make another one"#
    );
    let chosen_alone = r#"a client can choose its key by the rule "chosen""#;
    assert!(error_of([chosen()]).starts_with(chosen_alone));
    // A key that all share is nobody's own, and a shadow bounds nothing.
    assert!(error_of([chosen(), rule(1).0]).starts_with(chosen_alone));
    let shadow = own("own").with_mode(Mode::SHADOW);
    assert!(error_of([chosen(), shadow]).starts_with(chosen_alone));
    let layer = InFlightLayer::all([rule(1).0, chosen(), own("own")]);
    let names: Vec<_> = layer.rules().iter().map(InFlightRule::name).collect();
    // The client's own key is asked first, and shared ones last.
    assert_eq!(names, ["own", "chosen", "uploads"]);
}

/// Requests through a rule, and the metrics that they leave.
#[test]
fn metrics_count_requests_permits_and_events() {
    const LOCAL: &str = "ratelimit_local_decisions_total policy=uploads result=";
    type Metrics<'m> = &'m [(&'m str, Option<&'m [f64]>)];
    let uploads = || Counter::new("uploads", 1);
    let table = limiter_core::InFlight::builder("uploads", 5).capacity(1).build().unwrap();
    let by_path = key_fn(|head| Some(head.path().into())).assume_verified().or_reject();
    let losable = uploads().losable();
    let local = [format!("{LOCAL}allowed"), format!("{LOCAL}denied")];
    let [allowed, denied] = local.each_ref().map(String::as_str);
    let rows: [(InFlightRule, Option<&Counter>, Metrics<'_>); 4] = [
        (
            InFlightRule::new(table, by_path),
            None,
            &[("ratelimit_full_table_total policy=uploads result=denied", Some(&[1.0]))],
        ),
        (rule_of(&uploads().local()), None, &[(allowed, Some(&[1.0])), (denied, Some(&[1.0]))]),
        (rule_of(&uploads()), None, &[(allowed, None), (denied, None)]),
        (
            rule_of(&losable),
            Some(&losable),
            &[
                ("ratelimit_requests_total policy=uploads result=allowed", Some(&[2.0])),
                ("ratelimit_requests_total policy=uploads result=denied", Some(&[1.0])),
                ("ratelimit_in_flight policy=uploads", Some(&[1.0])),
                ("ratelimit_in_flight_events_total event=lost policy=uploads", Some(&[1.0])),
            ],
        ),
    ];
    for (row, (rule, losable, metrics)) in rows.into_iter().enumerate() {
        let recorded = metrics::record(async {
            let service = behind(&rule, two_frames);
            let first = service.clone().oneshot(of_path("/")).await.unwrap();
            let refused = service.clone().oneshot(of_path("/other")).await.unwrap();
            assert_eq!((first.status().as_u16(), refused.status().as_u16()), (200, 429));
            if let Some(counter) = losable {
                counter.lose();
                drop(first);
                std::mem::forget(rule.enter("leaked").await.unwrap());
            }
        });
        for (name, values) in metrics {
            assert_eq!(recorded.get(*name).map(Vec::as_slice), *values, "row {row}: {name}");
        }
        let durations = recorded.keys().find(|name| name.starts_with("ratelimit_check_duration"));
        let store = if row == 0 { "memory" } else { "other" };
        assert!(durations.unwrap().ends_with(&format!("policy=uploads store={store}")));
    }
}
