//! Delay instead of refusal.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Request, Response};
use limiter_core::{Clock, ManualClock, MemoryLimiter, Policy, Quota};
use limiter_tower::{
    ClientIp, OnMissing, RateLimitLayer,
    key::FixedKey,
    observe::{Decisions, Outcome},
    plan::Plans,
    rule::{Mode, Wait},
    service::{RateLimit, ResponseBody},
};
use tower::{Layer, Service, ServiceExt, limit::ConcurrencyLimitLayer, service_fn};

use crate::{Body, hello, limiter, limiter_of, request_from, statuses};

/// Ten a second, two at once.
const QUOTA: Quota = Quota::per_second(10).with_burst(2);
const ONE_SECOND: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(100);

fn waiting(wait: Wait) -> (RateLimitLayer, MemoryLimiter<ManualClock>, ManualClock) {
    let (limiter, clock) = limiter(QUOTA);
    let layer = RateLimitLayer::waiting(limiter.clone(), ClientIp::peer(), OnMissing::Reject, wait);
    let layer = layer.decisions();
    (layer, limiter, clock)
}

/// Requests that are on their way, with the order in which they were answered.
struct Requests {
    answered: Arc<Mutex<Vec<(usize, u16)>>>,
    tasks: Vec<tokio::task::JoinHandle<Response<ResponseBody<Body>>>>,
}

impl Requests {
    async fn start<S>(service: &S, count: usize) -> Self
    where
        S: Service<
                Request<Body>,
                Response = Response<ResponseBody<Body>>,
                Error = Infallible,
                Future: Send,
            > + Clone
            + Send
            + 'static,
    {
        let answered = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for index in 0..count {
            let (service, answered) = (service.clone(), Arc::clone(&answered));
            tasks.push(tokio::spawn(async move {
                let response = service.oneshot(request_from("192.0.2.1")).await.unwrap();
                answered.lock().unwrap().push((index, response.status().as_u16()));
                response
            }));
            settle().await;
        }
        Self { answered, tasks }
    }

    fn answered(&self) -> Vec<(usize, u16)> {
        self.answered.lock().unwrap().clone()
    }
}

/// Lets all tasks run as far as they can.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn some_pass_at_once_some_are_delayed_in_order_and_the_rest_refused() {
    let (layer, _, clock) = waiting(Wait::up_to(ONE_SECOND).queue(3));
    let service = layer.layer(service_fn(hello));
    let requests = Requests::start(&service, 8).await;
    let at_once = [(0, 200), (1, 200), (5, 429), (6, 429), (7, 429)];
    assert_eq!(requests.answered(), at_once);
    for delayed in 1..=3 {
        clock.advance(STEP);
        settle().await;
        assert_eq!(requests.answered().len(), 5 + delayed);
    }
    assert_eq!(requests.answered()[5..], [(2, 200), (3, 200), (4, 200)]);
}

#[tokio::test]
async fn a_delayed_request_says_so_in_its_extensions() {
    let (layer, _, clock) = waiting(Wait::up_to(ONE_SECOND));
    let service = layer.layer(service_fn(hello));
    let requests = Requests::start(&service, 3).await;
    clock.advance(STEP);
    let mut delayed = Vec::new();
    for task in requests.tasks {
        let response = task.await.unwrap();
        let decisions = response.extensions().get::<Decisions>().unwrap();
        delayed.push(decisions.get("default").unwrap().waited().is_some());
    }
    assert_eq!(delayed, [false, false, true]);
}

#[tokio::test]
async fn a_wait_is_bounded_in_time() {
    let (layer, _, _) = waiting(Wait::up_to(STEP * 2));
    let service = layer.layer(service_fn(hello));
    let requests = Requests::start(&service, 6).await;
    assert_eq!(requests.answered(), [(0, 200), (1, 200), (4, 429), (5, 429)]);
    for task in requests.tasks {
        task.abort();
    }
}

#[tokio::test]
async fn a_refusal_after_the_queue_says_when_to_retry() {
    let (layer, _, _) = waiting(Wait::up_to(STEP * 2));
    let service = layer.layer(service_fn(hello));
    let mut requests = Requests::start(&service, 5).await;
    let refusal = requests.tasks.remove(4).await.unwrap();
    assert_eq!(refusal.status(), 429);
    assert_eq!(crate::header(refusal.headers(), "retry-after"), Some("1"));
}

#[tokio::test]
async fn all_rules_of_one_wait_share_its_total() {
    let wait = Wait::up_to(ONE_SECOND).total(1);
    let (layer, _, clock) = waiting(wait.clone());
    let (other, _) = limiter_of(Policy::gcra("other", QUOTA));
    let other = RateLimitLayer::waiting(other, FixedKey::new("all"), OnMissing::Reject, wait);
    let (first, second) = (layer.layer(service_fn(hello)), other.layer(service_fn(hello)));
    let first = Requests::start(&first, 4).await;
    let second = Requests::start(&second, 3).await;
    assert_eq!(first.answered(), [(0, 200), (1, 200), (3, 429)]);
    assert_eq!(second.answered(), [(0, 200), (1, 200), (2, 429)]);
    clock.advance(STEP);
    settle().await;
    assert_eq!(first.answered().len(), 4);
}

#[tokio::test]
async fn a_client_that_goes_away_frees_its_place_and_its_permit() {
    let (layer, limiter, clock) = waiting(Wait::up_to(ONE_SECOND).queue(1));
    let service = layer.layer(service_fn(hello));
    let requests = Requests::start(&service, 3).await;
    assert_eq!(requests.answered().len(), 2);
    requests.tasks[2].abort();
    settle().await;
    let next = Requests::start(&service, 2).await;
    assert_eq!(next.answered(), [(1, 429)]);
    clock.advance(STEP);
    settle().await;
    assert_eq!(next.answered(), [(1, 429), (0, 200)]);
    assert_eq!(limiter.peek(std::net::Ipv4Addr::new(192, 0, 2, 1)).used(), 2);
}

#[tokio::test]
async fn a_waiting_request_holds_no_permit_of_an_inner_concurrency_limit() {
    let (layer, _, clock) = waiting(Wait::up_to(ONE_SECOND));
    let inner = ConcurrencyLimitLayer::new(1).layer(service_fn(hello));
    let service: RateLimit<_> = layer.layer(inner.clone());
    let requests = Requests::start(&service, 3).await;
    assert_eq!(requests.answered().len(), 2);
    // The third waits; the inner service's only permit is free.
    let free = inner.oneshot(request_from("192.0.2.9")).await.unwrap();
    assert_eq!(free.status(), 200);
    clock.advance(STEP);
    settle().await;
    assert_eq!(requests.answered().len(), 3);
}

/// Is ready for `left` calls, then fails.
#[derive(Clone)]
struct Failing {
    left: Arc<Mutex<u32>>,
}

impl Service<Request<Body>> for Failing {
    type Response = Response<Body>;
    type Error = &'static str;
    type Future = std::future::Ready<Result<Response<Body>, &'static str>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), &'static str>> {
        let mut left = self.left.lock().unwrap();
        *left = left.saturating_sub(1);
        std::task::Poll::Ready(if *left > 0 { Ok(()) } else { Err("closed") })
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        std::future::ready(Ok(Response::new(Body::default())))
    }
}

#[tokio::test]
async fn a_service_that_fails_after_the_delay_refunds_every_rule() {
    let (layer, limiter, clock) = waiting(Wait::up_to(ONE_SECOND));
    let (global, _) = limiter_of(Policy::gcra("global", Quota::per_hour(9)));
    let layer = layer.and(global.clone(), FixedKey::new("all"), OnMissing::Reject);
    let service = layer.layer(Failing { left: Arc::new(Mutex::new(4)) });
    for _ in 0..2 {
        service.clone().oneshot(request_from("192.0.2.1")).await.unwrap();
    }
    let third = tokio::spawn(service.oneshot(request_from("192.0.2.1")));
    settle().await;
    clock.advance(STEP);
    assert_eq!(third.await.unwrap().map(|_| ()).unwrap_err(), "closed");
    assert_eq!(limiter.peek(std::net::Ipv4Addr::new(192, 0, 2, 1)).used(), 1);
    assert_eq!(global.peek("all").used(), 2);
}

#[tokio::test]
async fn plans_share_the_queue_of_their_rule() {
    let (limiter, _) = limiter(QUOTA);
    let plans = Plans::waiting(limiter.clone(), [Policy::gcra("other", QUOTA)]).unwrap();
    let wait = Wait::up_to(ONE_SECOND).queue(1);
    let service = RateLimitLayer::waiting(limiter, ClientIp::peer(), OnMissing::Reject, wait)
        .policy(plans.by_extension(|_: &limiter_tower::key::PeerAddr| "other", "other").unwrap())
        .layer(service_fn(hello));
    let requests = Requests::start(&service, 4).await;
    assert_eq!(requests.answered(), [(0, 200), (1, 200), (3, 429)]);
}

#[tokio::test]
async fn a_shadow_does_not_delay() {
    let (layer, _, _) = waiting(Wait::up_to(ONE_SECOND));
    let service = layer.mode(Mode::SHADOW).layer(service_fn(hello));
    assert_eq!(statuses(&service, 5).await, [200; 5]);
}

#[tokio::test]
async fn a_plan_delays_by_its_own_quota() {
    let (limiter, clock) = limiter(QUOTA);
    let fast = Policy::gcra("fast", Quota::per_second(100).with_burst(2));
    let plans = Plans::waiting(limiter.clone(), [fast]).unwrap();
    let fast = plans.get("fast").unwrap();
    let wait = Wait::up_to(ONE_SECOND);
    let service = RateLimitLayer::waiting(limiter, ClientIp::peer(), OnMissing::Reject, wait)
        .policy(move |_| Some(fast.clone()))
        .layer(service_fn(hello));
    let requests = Requests::start(&service, 3).await;
    assert_eq!(requests.answered().len(), 2);
    clock.advance(STEP / 10);
    settle().await;
    assert_eq!(requests.answered().len(), 3);
}

#[tokio::test]
async fn a_delay_is_reported_as_one() {
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&outcomes);
    let (layer, _, clock) = waiting(Wait::up_to(ONE_SECOND).queue(1));
    let layer = layer.observe(move |event| sink.lock().unwrap().push(event.outcome));
    let service = layer.layer(service_fn(hello));
    let requests = Requests::start(&service, 4).await;
    assert_eq!(clock.next_wake(), Some(clock.now().saturating_add(STEP)));
    clock.advance(STEP);
    settle().await;
    assert_eq!(requests.answered().len(), 4);
    let expected = [Outcome::Allowed, Outcome::Allowed, Outcome::Denied, Outcome::Delayed];
    assert_eq!(*outcomes.lock().unwrap(), expected);
}
