//! Charges by the outcome, after the response.

use tokio::sync::Semaphore;

use crate::*;

const LIMIT: u64 = 3;

fn login() -> Memory {
    hourly("login", LIMIT)
}

/// Charges failures only.
fn failures(response: ResponseHead<'_>) -> Option<Cost> {
    (!response.status.is_success()).then_some(Cost::ONE)
}

#[tokio::test]
async fn it_asks_before_and_charges_by_the_outcome() {
    let limiter = login();
    let service = layer_of([for_all(limiter.clone()).charge_after(failures)]);
    let service = service.layer(service_fn(named));
    assert_eq!(statuses(&service, 20).await, [200; 20]);
    assert_eq!(used(&limiter), 0);
    let wrong = vec![request_for(401); 5];
    assert_eq!(sent(&service, wrong).await, [401, 401, 401, 429, 429]);
    assert_eq!(used(&limiter), LIMIT);
    // Those that would be free are refused as well.
    assert_eq!(statuses(&service, 1).await, [429]);
}

#[tokio::test]
async fn the_cost_is_asked_for_and_the_outcome_decides_what_is_charged() {
    for (charged, left) in [(1, 1), (2, 2), (3, 3)] {
        let limiter = login();
        let rule = for_all(limiter.clone()).cost(|_| Cost::of(2));
        let rule = rule.charge_after(move |_| Cost::new(charged).ok());
        let service = layer_of([rule]).layer(service_fn(hello));
        assert_eq!(statuses(&service, 1).await, [200]);
        assert_eq!(used(&limiter), left);
        // Two permits are asked for.
        let expected = if LIMIT - left >= 2 { 200 } else { 429 };
        assert_eq!(statuses(&service, 1).await, [expected]);
    }
}

#[tokio::test]
async fn the_overshoot_is_what_is_in_flight() {
    const IN_FLIGHT: u64 = 3;
    let (limiter, gate) = (login(), Arc::new(Semaphore::new(0)));
    let closed = Arc::clone(&gate);
    let layer = layer_of([for_all(limiter.clone()).charge_after(failures)]);
    let mut service = layer.layer(service_fn(move |request: Request<Body>| {
        let gate = Arc::clone(&closed);
        async move {
            drop(gate.acquire().await.unwrap());
            named(request).await
        }
    }));
    // Two of three permits are used, and all requests in flight find the last one.
    drop(for_all(limiter.clone()).check("all").cost(Cost::of(2)).await.unwrap());
    let mut calls = Vec::new();
    for _ in 0..IN_FLIGHT {
        let mut call = Box::pin(service.ready().await.unwrap().call(request_for(401)));
        assert!(poll_once(call.as_mut()).is_none());
        calls.push(call);
    }
    assert_eq!(used(&limiter), 2);
    gate.add_permits(1);
    let mut admitted = 2;
    for call in calls {
        admitted += u64::from(call.await.unwrap().status() == 401);
    }
    // The last of those in flight fits, the others are beyond the limit.
    assert_eq!(admitted, LIMIT + IN_FLIGHT - 1);
    let refused = send(&service, request_for(401)).await;
    assert_eq!(refused.status(), 429);
    // The overshoot is a debt, which recovers at one permit in 20 minutes.
    let wait = (admitted + 1 - LIMIT) * 1_200;
    assert_eq!(header(refused.headers(), "retry-after"), Some(&*wait.to_string()));
}

/// Charges after the response, and settlements. After a login that was free, a client once read that it had one attempt
/// less.
#[tokio::test]
async fn the_fields_and_decisions_report_the_state_after_the_charge() {
    type Rows = &'static [(u16, &'static str)];
    type Configure = fn(Rule) -> Rule;
    let settled: Configure = |rule| {
        rule.settle(|response| match response.status.is_success() {
            true => Keep::None,
            false => Keep::All,
        })
    };
    let charged: Configure = |rule| rule.charge_after(failures);
    let rows: [(&str, Configure, Rows); 3] = [
        (
            "3/h",
            charged,
            &[
                (200, "3;t=3600"),
                (401, "2;t=2400"),
                (200, "2;t=2400"),
                (401, "1;t=1200"),
                (401, "0;t=1200"),
                (401, "0;t=1200"),
            ],
        ),
        ("5/min", settled, &[(200, "5;t=60"), (401, "4;t=48"), (200, "4;t=48")]),
        ("5/min by fixed-window", settled, &[(200, "5;t=1"), (401, "4;t=60"), (200, "4;t=60")]),
    ];
    for (limit, configure, requests) in rows {
        let (limiter, _) = limiter_of(Policy::parse("login", limit).unwrap());
        let rule = configure(for_all(limiter.clone()));
        let service = layer_of([rule.clone()]).layer(service_fn(named));
        for (status, fields) in requests {
            let response = send(&service, request_for(*status)).await;
            let expected = format!("\"login\";r={fields}");
            assert_eq!(header(response.headers(), "ratelimit"), Some(&*expected), "{limit}");
            let decisions = response.extensions().get::<Decisions>().unwrap();
            let remaining = decisions.of(&rule).unwrap().decision().remaining();
            assert_eq!(remaining, limiter.peek("all").remaining(), "{limit}");
        }
    }
}

/// How many permits are used after a service that fails, a handler that panics, and a client that disconnects meanwhile.
#[tokio::test]
async fn without_a_response_nothing_is_charged_and_nothing_settled() {
    type ByLimiter = fn(&Memory) -> Rule;
    let after: ByLimiter = |limiter| for_all(limiter.clone()).charge_after(|_| Some(Cost::ONE));
    let settled: ByLimiter = |limiter| for_all(limiter.clone()).settle(|_| Keep::None);
    let rows = [(after, [0, 0, 0]), (settled, [1, 2, 3])];
    for (rule, [failed, panicked, disconnected]) in rows {
        let limiter = login();
        let layer = layer_of([rule(&limiter)]);
        let failing = layer.layer(service_fn(|_: Request<Body>| {
            std::future::ready(Err::<Response<Body>, _>("fails"))
        }));
        assert_eq!(failing.oneshot(request()).await.unwrap_err(), "fails");
        assert_eq!(used(&limiter), failed);
        let panicking = layer.layer(service_fn(
            async |_: Request<Body>| -> Result<Response<Body>, Infallible> {
                panic!("a fault in a handler")
            },
        ));
        assert!(tokio::spawn(panicking.oneshot(request())).await.unwrap_err().is_panic());
        assert_eq!(used(&limiter), panicked);
        let hanging = layer.layer(service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, Infallible>>()
        }));
        assert!(poll_once(Box::pin(hanging.oneshot(request())).as_mut()).is_none());
        assert_eq!(used(&limiter), disconnected);
    }
}

#[tokio::test]
async fn a_store_is_asked_and_charged_too_and_counts_what_it_lost() {
    let store = Deferred::new(login());
    let rule = for_all(store.clone()).charge_after(failures);
    let service = layer_of([rule.clone()]).layer(service_fn(named));
    let all = "all".into();
    for charged in 1..=2 {
        assert_eq!(send(&service, request_for(401)).await.status(), 401);
        while rule.peek(&all).await.unwrap().used() < charged {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!((statuses(&service, 1).await, rule.unsent()), (vec![200], 0));
    assert_eq!(send(&service, request_for(401)).await.status(), 401);
    store.set_failing(true);
    while rule.unsent() == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(rule.unsent(), 1);
}

#[tokio::test]
async fn the_later_of_settle_and_charge_after_applies() {
    let charges = |rule: Rule| rule.charge_after(|_| Some(Cost::of(2)));
    let settles = |rule: Rule| rule.settle(|_| Keep::Only(1));
    for (later, left) in [(true, 2), (false, 1)] {
        let limiter = login();
        let rule = for_all(limiter.clone());
        let rule = if later { charges(settles(rule)) } else { settles(charges(rule)) };
        let service = layer_of([rule]).layer(service_fn(hello));
        statuses(&service, 1).await;
        assert_eq!(used(&limiter), left);
    }
}

/// What is charged after the response is announced with the wait that the next request has.
#[tokio::test]
async fn under_a_window_the_fields_announce_its_end() {
    for limit in [
        "1/h by fixed-window",
        "1/h by sliding-log",
        "1/h by sliding-counter",
        "1/h by sub-windows 60 slots",
    ] {
        let (limiter, clock) = limiter_of(Policy::parse("failures", limit).unwrap());
        let service = layer_of([for_all(limiter).charge_after(failures)]);
        let service = service.layer(service_fn(named));
        let charged = send(&service, request_for(401)).await;
        let announced = header(charged.headers(), "ratelimit").unwrap();
        let seconds: u64 = announced.split_once(";t=").unwrap().1.parse().unwrap();
        assert!(announced.starts_with(r#""failures";r=0;t="#), "{limit}: {announced}");
        let refused = send(&service, request_for(401)).await;
        let wait = header(refused.headers(), "retry-after").unwrap().parse().unwrap();
        assert!((3_600..=2 * 3_600).contains(&seconds) && seconds >= wait, "{limit}: {announced}");
        clock.advance(Duration::from_secs(seconds));
        assert_eq!(send(&service, request_for(401)).await.status(), 401, "{limit}");
    }
}
