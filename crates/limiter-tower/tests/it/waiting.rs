//! Delay instead of refusal.

use limiter_core::Clock;
use tower::limit::ConcurrencyLimitLayer;

use crate::*;

/// Ten a second, two at once.
const QUOTA: Quota = Quota::per_second(10).with_burst(2);
const ONE_SECOND: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(100);

fn waiting(wait: Wait) -> (Rule, MemoryLimiter<ManualClock>, ManualClock) {
    let (limiter, clock) = limiter(QUOTA);
    let wait = wait.clock(clock.clone());
    (Rule::waiting(limiter.clone(), ClientIp::peer(), wait), limiter, clock)
}

/// Requests that are on their way, with the order in which they were answered.
struct Requests {
    answered: Arc<Mutex<Vec<(usize, u16)>>>,
    tasks: Vec<tokio::task::JoinHandle<Response<Body>>>,
}

impl Requests {
    async fn start(service: &(impl Served<Future: Send> + Send + 'static), count: usize) -> Self {
        let answered = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for index in 0..count {
            let (service, answered) = (service.clone(), Arc::clone(&answered));
            tasks.push(tokio::spawn(async move {
                let response = service.oneshot(request()).await.unwrap();
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

/// What is answered at once, of so many requests. The others are delayed: each is admitted a step after the one before it,
/// and says so in its extensions.
#[tokio::test]
async fn some_pass_at_once_some_are_delayed_in_order_and_the_rest_refused() {
    let two_plans = |wait| {
        let (limiter, clock) = limiter(QUOTA);
        let plans = Plans::waiting(limiter.clone(), [Policy::gcra("other", QUOTA)]).unwrap();
        let other = plans.by_extension(|_: &PeerAddr| "other", "other").unwrap();
        (Rule::waiting(limiter, ClientIp::peer(), wait).plan(other), clock)
    };
    let of = |wait| {
        let (rule, _, clock) = waiting(wait);
        (rule, clock)
    };
    let up_to = Wait::up_to(ONE_SECOND);
    for (case, (rule, clock), count, at_once) in [
        (
            "a queue of three",
            of(up_to.clone().queue(3)),
            8,
            &[(0, 200), (1, 200), (5, 429), (6, 429), (7, 429)][..],
        ),
        ("two steps", of(Wait::up_to(STEP * 2)), 6, &[(0, 200), (1, 200), (4, 429), (5, 429)]),
        ("none is refused", of(up_to.clone()), 3, &[(0, 200), (1, 200)]),
        // Plans share the queue of their rule.
        ("plans", two_plans(up_to.queue(1)), 4, &[(0, 200), (1, 200), (3, 429)]),
    ] {
        let service = layer_of([rule.clone()]).layer(service_fn(hello));
        let requests = Requests::start(&service, count).await;
        assert_eq!(requests.answered(), at_once, "{case}");
        let delayed = count - at_once.len();
        for index in 0..delayed {
            clock.advance(STEP);
            settle().await;
            let answered = requests.answered();
            assert_eq!(answered[at_once.len()..].len(), index + 1, "{case}");
            assert_eq!(answered.last(), Some(&(2 + index, 200)), "{case}");
        }
        for (index, task) in requests.tasks.into_iter().enumerate() {
            let response = task.await.unwrap();
            let decisions = response.extensions().get::<Decisions>().unwrap();
            let has_waited = decisions.of(&rule).unwrap().waited().is_some();
            assert_eq!(has_waited, (2..2 + delayed).contains(&index), "{case}: {index}");
            let retry_after = (response.status() == 429).then_some("1");
            assert_eq!(header(response.headers(), "retry-after"), retry_after, "{case}");
        }
    }
}

#[tokio::test]
async fn all_rules_of_one_wait_share_its_total() {
    let wait = Wait::up_to(ONE_SECOND).total(1);
    let (rule, _, clock) = waiting(wait.clone());
    let (other, _) = limiter_of(Policy::gcra("other", QUOTA));
    let other = layer_of([Rule::waiting(other, FixedKey::new("all"), wait)]);
    let (first, second) =
        (layer_of([rule]).layer(service_fn(hello)), other.layer(service_fn(hello)));
    let first = Requests::start(&first, 4).await;
    let second = Requests::start(&second, 3).await;
    assert_eq!(first.answered(), [(0, 200), (1, 200), (3, 429)]);
    assert_eq!(second.answered(), [(0, 200), (1, 200), (2, 429)]);
    clock.advance(STEP);
    settle().await;
    assert_eq!(first.answered().len(), 4);
}

#[tokio::test]
async fn a_client_that_disconnects_frees_its_permit_and_keeps_its_place_until_it_was_due() {
    let (rule, limiter, clock) = waiting(Wait::up_to(ONE_SECOND).queue(1));
    let service = layer_of([rule]).layer(service_fn(hello));
    let requests = Requests::start(&service, 3).await;
    assert_eq!(requests.answered().len(), 2);
    requests.tasks[2].abort();
    settle().await;
    let used = || limiter.peek(CLIENT).used();
    assert_eq!(used(), 2);
    let early = Requests::start(&service, 1).await;
    assert_eq!(early.answered(), [(0, 429)]);
    // The permit that it has waited for is there, and then its place.
    clock.advance(STEP);
    let next = Requests::start(&service, 3).await;
    assert_eq!(next.answered(), [(0, 200), (2, 429)]);
    clock.advance(STEP);
    settle().await;
    assert_eq!((next.answered().len(), used()), (3, 2));
}

#[tokio::test]
async fn a_waiting_request_holds_no_permit_of_an_inner_concurrency_limit() {
    let (rule, _, clock) = waiting(Wait::up_to(ONE_SECOND));
    let inner = ConcurrencyLimitLayer::new(1).layer(service_fn(hello));
    let service = layer_of([rule]).layer(inner.clone());
    let requests = Requests::start(&service, 3).await;
    assert_eq!(requests.answered().len(), 2);
    // The third waits; the inner service's only permit is free.
    let free = inner.oneshot(request_from("192.0.2.9")).await.unwrap();
    assert_eq!(free.status(), 200);
    clock.advance(STEP);
    settle().await;
    assert_eq!(requests.answered().len(), 3);
}

/// Is ready for some calls, of all clones together, then fails.
#[derive(Clone)]
pub(crate) struct Failing {
    left: Arc<Mutex<u32>>,
}

impl Failing {
    pub(crate) fn after(calls: u32) -> Self {
        Self { left: Arc::new(Mutex::new(calls + 1)) }
    }
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
    let (rule, limiter, clock) = waiting(Wait::up_to(ONE_SECOND));
    let global = hourly("global", 9);
    let service = layer_of([rule, for_all(global.clone())]).layer(Failing::after(2));
    for _ in 0..2 {
        service.clone().oneshot(request()).await.unwrap();
    }
    let third = tokio::spawn(service.oneshot(request()));
    settle().await;
    clock.advance(STEP);
    assert_eq!(third.await.unwrap().map(|_| ()).unwrap_err(), "closed");
    assert_eq!(limiter.peek(CLIENT).used(), 1);
    assert_eq!(global.peek("all").used(), 2);
}

#[tokio::test]
async fn a_shadow_does_not_delay() {
    let (rule, _, _) = waiting(Wait::up_to(ONE_SECOND));
    let service = layer_of([rule.with_mode(Mode::SHADOW)]).layer(service_fn(hello));
    assert_eq!(statuses(&service, 5).await, [200; 5]);
}

#[tokio::test]
async fn a_plan_delays_by_its_own_quota() {
    let (limiter, clock) = limiter(QUOTA);
    let fast = Policy::gcra("fast", Quota::per_second(100).with_burst(2));
    let plans = Plans::waiting(limiter.clone(), [fast]).unwrap();
    let fast = plans.get("fast").unwrap();
    let wait = Wait::up_to(ONE_SECOND);
    let rule = Rule::waiting(limiter, ClientIp::peer(), wait).plan(move |_| Some(fast.clone()));
    let service = layer_of([rule]).layer(service_fn(hello));
    let requests = Requests::start(&service, 3).await;
    assert_eq!(requests.answered().len(), 2);
    clock.advance(STEP / 10);
    settle().await;
    assert_eq!(requests.answered().len(), 3);
}

#[tokio::test]
async fn a_delay_is_reported_as_one() {
    let (rule, _, clock) = waiting(Wait::up_to(ONE_SECOND).queue(1));
    let (layer, events) = Events::of(layer_of([rule]));
    let requests = Requests::start(&layer.layer(service_fn(hello)), 4).await;
    assert_eq!(clock.next_wake(), Some(clock.now().saturating_add(STEP)));
    clock.advance(STEP);
    settle().await;
    assert_eq!(requests.answered().len(), 4);
    assert_eq!(events.of_rule("default"), ["allowed", "allowed", "denied", "delayed"]);
}

/// Starts so many requests of each of ten addresses, one address after another or in turns, and returns them.
fn of_ten_addresses<S>(service: &S, each: usize, in_turns: bool) -> Vec<Pin<Box<S::Future>>>
where
    S: Service<Request<Body>> + Clone,
{
    let mut requests: Vec<_> = (0..10 * each).map(|request| request / each).collect();
    if in_turns {
        requests = (0..10 * each).map(|request| request % 10).collect();
    }
    let start = |address| {
        let request = request_from(&format!("198.51.100.{address}"));
        let mut call = Box::pin(service.clone().call(request));
        let _ = poll_once(call.as_mut());
        call
    };
    requests.into_iter().map(start).collect()
}

/// Returns how many requests of another address can wait besides.
fn places<S>(service: &S) -> usize
where
    S: Service<Request<Body>> + Clone,
{
    let mut waiting = Vec::new();
    loop {
        let mut call = Box::pin(service.clone().call(request()));
        // The first ones are admitted at once.
        let is_answered = poll_once(call.as_mut()).is_some();
        if is_answered && waiting.len() >= 2 {
            return waiting.len() - 2;
        }
        waiting.push(call);
    }
}

/// Returns how many of 110 places ten addresses leave that take all they get, one after another or in turns.
fn left_by_ten(per_key: usize, in_turns: bool) -> usize {
    let (limiter, _) = limiter_of(Policy::gcra("default", Quota::per_hour(1).with_burst(2)));
    let wait = Wait::up_to(Duration::from_secs(1_000_000)).queue(per_key).total(110);
    let service = layer_of([Rule::waiting(limiter, ClientIp::peer(), wait)]);
    let service = service.layer(service_fn(hello));
    let held = of_ten_addresses(&service, 150, in_turns);
    let places = places(&service);
    drop(held);
    places
}

#[tokio::test]
async fn ten_keys_leave_places_to_others() {
    // Each has nine or ten, and the next key gets a third of those that are left.
    for (per_key, in_turns, expected) in
        [(10, true, 6..7), (50, true, 6..7), (1_000, true, 6..7), (10, false, 5..6)]
            .into_iter()
            .chain([50, 1_000].map(|per_key| (per_key, false, 1..110)))
    {
        let places = left_by_ten(per_key, in_turns);
        assert!(expected.contains(&places), "{per_key} for each, in turns: {in_turns}: {places}");
    }
}
