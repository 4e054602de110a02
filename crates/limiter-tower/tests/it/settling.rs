//! What is refunded after the response.

use std::{future::ready, sync::mpsc, thread};

use crate::*;

const TEN: Cost = Cost::of(10);
const MINUTE: Duration = Duration::from_secs(60);

/// Returns a rule that charges ten permits for a request, and the limiter behind it.
fn tokens() -> (Rule, Memory) {
    let limiter = hourly("tokens", 1_000);
    (for_all(limiter.clone()).cost(|_| TEN), limiter)
}

/// Returns a layer whose handlers get the charge.
fn chargeable(rule: &Rule) -> RateLimitLayer {
    RateLimitLayer::all([rule.clone()]).chargeable()
}

/// Keeps the charge of failures only.
fn failures(response: ResponseHead<'_>) -> Keep {
    if response.status.is_success() { Keep::None } else { Keep::All }
}

async fn respond(status: u16) -> Result<Response<Body>, Infallible> {
    Ok(Response::builder().status(status).body(Body::default()).unwrap())
}

type Settle = fn(ResponseHead<'_>) -> Keep;

#[tokio::test]
async fn a_charge_is_settled_by_the_response_and_at_most_all_of_it_is_kept() {
    let rows: [(Settle, u16, u64); 6] = [
        (failures, 200, 0),
        (failures, 401, 10),
        (failures, 500, 10),
        (|_| Keep::Only(3), 200, 3),
        (|_| Keep::Only(0), 200, 0),
        (|_| Keep::Only(u64::MAX), 200, 10),
    ];
    for (row, (settle, status, left)) in rows.into_iter().enumerate() {
        let (rule, limiter) = tokens();
        let service = layer_of([rule.settle(settle)]).layer(service_fn(move |_| respond(status)));
        assert_eq!(statuses(&service, 1).await, [status]);
        assert_eq!(used(&limiter), left, "row {row}");
    }
}

/// What the handler does with the charge, how many permits are used then, and how many the fields report.
#[tokio::test]
async fn a_handlers_first_settlement_wins_and_the_fields_follow_it() {
    type Handler = fn(&Charge, &Rule);
    let twice: Handler = |charge, rule| {
        charge.keep(rule, 4);
        charge.clone().keep(rule, 0);
    };
    let rows: [(&str, bool, Handler, u64, u64); 4] = [
        ("twice", false, twice, 4, 996),
        ("twice, and then the layer", true, twice, 4, 996),
        ("taken and kept", false, |charge, rule| charge.take().keep(rule, 4), 4, 996),
        // A later settlement comes too late for the fields.
        ("taken", false, |charge, _| drop(charge.take()), 10, 990),
    ];
    for (case, settles, handler, left, remaining) in rows {
        let (mut rule, limiter) = tokens();
        if settles {
            rule = rule.settle(|_| Keep::None);
        }
        let service = chargeable(&rule).layer(service_fn(|request: Request<Body>| {
            handler(request.extensions().get::<Charge>().unwrap(), &rule);
            respond(200)
        }));
        let response = send(&service, request()).await;
        assert_eq!(used(&limiter), left, "{case}");
        let fields = header(response.headers(), "ratelimit").unwrap();
        assert!(fields.starts_with(&format!("\"tokens\";r={remaining};")), "{case}: {fields}");
    }
}

#[tokio::test]
async fn a_taken_charge_is_settled_after_the_response() {
    let (rule, limiter) = tokens();
    let rule = rule.settle(|_| Keep::None);
    let service = chargeable(&rule).layer(service_fn(async |request: Request<Body>| {
        let charge = request.extensions().get::<Charge>().unwrap().take();
        let mut response = Response::new(Body::default());
        response.extensions_mut().insert(charge);
        Ok::<_, Infallible>(response)
    }));
    let response = send(&service, request()).await;
    assert_eq!(used(&limiter), 10);
    response.extensions().get::<Charge>().unwrap().keep(&rule, 2);
    assert_eq!(used(&limiter), 2);
}

#[tokio::test]
async fn a_handler_settles_the_charges_of_nested_layers() {
    let [(outer, outers), (inner, inners)] = [tokens(), tokens()];
    let service = chargeable(&inner).layer(service_fn(|request: Request<Body>| {
        let charge = request.extensions().get::<Charge>().unwrap();
        charge.keep(&outer, 2);
        charge.keep(&inner, 3);
        respond(200)
    }));
    let service = chargeable(&outer).layer(service);
    let response = service.oneshot(request()).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!((used(&outers), used(&inners)), (2, 3));
}

/// A request is one request, and as many tokens as its answer has.
#[tokio::test]
async fn a_handler_settles_each_rule_alone_and_charges_more_than_was_charged() {
    for (keep, tokens_left) in [(0, 0), (3, 3), (10, 10), (250, 250), (5_000, 1_000)] {
        let (tokens, of_tokens) = tokens();
        let of_requests = hourly("requests", 9);
        let requests = by_address(of_requests.clone());
        let rules = [tokens.clone(), requests.clone()];
        let layer = layer_of(rules).chargeable();
        let other = for_all(hourly("other", 9));
        let service = layer.layer(service_fn(|request: Request<Body>| {
            let charge = request.extensions().get::<Charge>().unwrap();
            // A rule that has not counted the request is not part of it.
            charge.keep(&other, 5);
            charge.keep(&tokens, keep);
            charge.keep(&tokens, 1);
            respond(200)
        }));
        let response = send(&service, request()).await;
        let used_requests = of_requests.peek(CLIENT).used();
        assert_eq!((used(&of_tokens), used_requests), (tokens_left, 1), "{keep} kept");
        let decisions = response.extensions().get::<Decisions>().unwrap();
        let remaining =
            [&tokens, &requests].map(|it| decisions.of(it).unwrap().decision().remaining());
        assert_eq!(remaining, [1_000 - tokens_left, 8], "{keep} kept");
    }
}

#[tokio::test]
async fn a_handler_gets_the_charge_only_of_a_chargeable_layer() {
    let (rule, _) = tokens();
    for (layer, expected) in [
        (RateLimitLayer::all([rule.clone()]), false),
        (RateLimitLayer::all([rule.clone().settle(|_| Keep::None)]), false),
        (chargeable(&rule), true),
    ] {
        let service = layer.layer(service_fn(move |request: Request<Body>| {
            assert_eq!(request.extensions().get::<Charge>().is_some(), expected);
            respond(200)
        }));
        assert_eq!(statuses(&service, 1).await, [200]);
    }
}

/// A closure finds the charge in the response, where a handler has left it.
#[test]
fn a_closure_may_use_the_charge_that_it_settles() {
    let (_, limiter) = tokens();
    let rule = by_address(limiter.clone()).cost(|_| TEN);
    let block = Block::after(9).within(MINUTE).lasting(MINUTE);
    let keep = |permits| {
        let rule = rule.clone();
        move |response: ResponseHead<'_>| {
            response.extensions.get::<Charge>().unwrap().keep(&rule, permits);
        }
    };
    let (keep_four, keep_nine) = (keep(4), keep(9));
    let rule = rule
        .block_by_response(block, move |response| {
            keep_four(response);
            Strike::Ignore
        })
        .unwrap()
        .settle(move |response| {
            keep_nine(response);
            Keep::None
        });
    let (done, answered) = mpsc::channel();
    thread::spawn(move || {
        let service = chargeable(&rule).layer(service_fn(|request: Request<Body>| {
            let charge = request.extensions().get::<Charge>().unwrap().clone();
            ready(Ok::<_, Infallible>(
                Response::builder().extension(charge).body(Body::default()).unwrap(),
            ))
        }));
        let answer = Box::pin(statuses(&service, 1));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        done.send(runtime.block_on(answer)).unwrap();
    });
    assert_eq!(answered.recv_timeout(MINUTE), Ok(vec![200]), "it deadlocks");
    // The first settlement wins.
    assert_eq!(limiter.peek(CLIENT).used(), 4);
}
