//! In which order rates and limits on requests in flight decide, by where their layers are put.

use http_body_util::{Either, Full};
use limiter_tower::service::{AnyBody, HeldBody, Rates};

use super::*;

const TEN: Quota = Quota::per_hour(10);

type Outer = limiter_tower::service::Limited<Limited, Rates<AnyBody>>;
type Answer = Response<Either<HeldBody<Stream>, Full<Bytes>>>;

fn rate() -> (Rule, MemoryLimiter<ManualClock>) {
    let limiter = limiter_of(Policy::gcra("api", TEN)).0;
    (for_all(limiter.clone()), limiter)
}

/// Returns a service behind this rate and, inside of it, this limit.
fn around(api: Rule, uploads: &InFlightRule) -> Outer {
    RateLimitLayer::all([api]).any_body().layer(behind(uploads, two_frames))
}

async fn request<S>(service: &S) -> Answer
where
    S: Service<Request<Body>, Response = Answer, Error = Infallible> + Clone,
{
    service.clone().oneshot(Request::new(Body::default())).await.unwrap()
}

/// Else a client at its limit in flight is limited by nothing.
#[tokio::test]
async fn attempts_at_a_full_limit_are_charged_by_the_rate_outside() {
    for is_slow in [false, true] {
        let (api, limiter) = rate();
        let counter = Counter::new("uploads", 1);
        let counter = if is_slow { counter.slow() } else { counter };
        let service = around(api, &rule_of(&counter));
        let first = request(&service).await;
        assert_eq!(first.status(), 200);
        for attempt in 2..=10 {
            assert_eq!(request(&service).await.status(), 429);
            assert_eq!(used(&limiter), attempt);
        }
        assert_eq!(counter.calls().iter().filter(|call| **call == "enter").count(), 10);
        // Now the rate refuses, and the limit in flight is not asked.
        let refused = request(&service).await;
        assert!(refused.headers().contains_key("retry-after"));
        assert_eq!(counter.calls(), [""; 0]);
    }
}

/// The refusal of the inner layer is not settled, is no strike, and keeps its fields.
#[tokio::test]
async fn an_outer_rate_keeps_its_charge_for_a_request_that_an_inner_layer_refuses() {
    use std::time::Duration;
    let limiter = limiter_of(Policy::gcra("api", TEN)).0;
    let block = Block::after(1).within(Duration::from_secs(60));
    let api = Rule::new(limiter.clone(), ClientIp::peer())
        .settle(|response| if response.status == 200 { Keep::All } else { Keep::None })
        .block_by_response(block.lasting(Duration::from_secs(60)), |response| {
            if response.status == 200 { Strike::Ignore } else { Strike::Count }
        })
        .unwrap();
    let answers = Answers::new().headers(Headers::XRateLimit(Reset::Delta));
    let service = RateLimitLayer::all([api.clone()])
        .answers(answers)
        .any_body()
        .layer(behind(&rule(1).0, two_frames));
    let send = || service.clone().oneshot(crate::request());
    let first = send().await.unwrap();
    let refused = send().await.unwrap();
    assert_eq!((first.status().as_u16(), refused.status().as_u16()), (200, 429));
    assert_eq!(header(first.headers(), "x-ratelimit-remaining"), Some("9"));
    assert_eq!(header(refused.headers(), "x-ratelimit-remaining"), None);
    let key = api.key(&crate::request()).unwrap().into_owned();
    assert_eq!(api.peek(&key).await.unwrap().used(), 2);
    assert!(api.blocked_for(&key).await.unwrap().is_zero());
}

/// Else a client that resets its requests would call the store without a limit.
#[tokio::test]
async fn a_store_is_not_called_for_a_client_whose_rate_is_used_up() {
    let (api, limiter) = rate();
    let counter = Counter::new("uploads", 1).slow();
    let service = around(api, &rule_of(&counter));
    for _ in 0..10 {
        // Dropped while the store is asked.
        let future = service.clone().call(Request::new(Body::default()));
        assert!(format!("{future:?}").contains("Calling"), "{future:?}");
    }
    assert_eq!(used(&limiter), 10);
    counter.calls();
    assert_eq!(request(&service).await.status(), 429);
    assert_eq!((counter.calls(), counter.held()), (vec![], 0));
}

#[tokio::test]
async fn a_full_limit_gives_back_what_other_limits_have_taken() {
    let (first, second) = (Counter::new("first", 5), Counter::new("second", 1));
    let layer = InFlightLayer::all([rule_of(&first), rule_of(&second)]);
    let service = behind_layer(&layer, two_frames);
    let response = send(&service).await;
    assert_eq!((first.held(), second.held()), (1, 1));
    assert_eq!(send(&service).await.status(), 429);
    assert_eq!((first.held(), second.held()), (1, 1));
    assert_eq!(first.calls(), ["enter", "enter"]);
    drop(response);
    assert_eq!((first.held(), second.held()), (0, 0));
}

#[tokio::test]
async fn a_request_that_waits_for_a_rate_holds_no_permit() {
    let (limiter, clock) = limiter_of(Policy::gcra("api", Quota::per_second(1)));
    let wait = Wait::up_to(Duration::from_secs(5)).queue(1);
    let api = Rule::waiting(limiter.clone(), FixedKey::new("all"), wait);
    let (uploads, counter) = rule(5);
    let service = around(api, &uploads);
    drop(request(&service).await);
    let mut waiting = Box::pin(service.clone().call(Request::new(Body::default())));
    assert!(poll_once(waiting.as_mut()).is_none());
    assert!(format!("{waiting:?}").contains("Deciding"), "{waiting:?}");
    assert_eq!(counter.held(), 0);
    clock.advance(Duration::from_secs(1));
    let response = poll_once(waiting.as_mut()).unwrap().unwrap();
    assert_eq!((response.status().as_u16(), counter.held()), (200, 1));
}

/// Returns an extractor of the field `x-user`, which is absent.
fn user() -> impl MaybeKey {
    HeaderKey::new(HeaderName::from_static("x-user")).assume_verified()
}

/// What becomes of a request whose rule is like this, and which operations the limiter is called for.
#[tokio::test]
async fn a_request_that_no_limit_counts_is_answered_as_its_rule_says() {
    type ByCounter = fn(&Counter) -> InFlightRule;
    let uploads = || Counter::new("uploads", 1);
    let failing = || uploads().slow().failing();
    let rows: [(Counter, ByCounter, u16, &[&str], &str); 4] = [
        (uploads(), |it| InFlightRule::new(it.clone(), user().or_reject()), 400, &[], "rejected"),
        (uploads(), |it| InFlightRule::new(it.clone(), user().or_skip()), 200, &[], "bypassed"),
        (failing(), rule_of, 200, &["enter"], "error_allowed"),
        (
            failing(),
            |it| rule_of(it).on_store_failure(OnStoreFailure::Deny),
            503,
            &["enter"],
            "error_denied",
        ),
    ];
    for (counter, rule, status, calls, outcome) in rows {
        let (rule, events) = Events::of(rule(&counter));
        let response = send(&behind(&rule, two_frames)).await;
        assert_eq!(response.status(), status, "{outcome}");
        assert!(!response.headers().contains_key("ratelimit"), "{outcome}");
        assert_eq!((counter.calls(), events.take()), (calls.to_vec(), vec![outcome]));
        // A missing key is rejected before another rule has taken a permit.
        let all = Counter::new("all", 1);
        let beside = InFlightLayer::all([rule_of(&all), rule]);
        let beside = send(&behind_layer(&beside, two_frames)).await;
        assert_eq!(beside.status(), status, "{outcome}");
        assert!(status != 400 || all.calls().is_empty());
    }
}

#[tokio::test]
async fn a_shadow_counts_and_refuses_nothing() {
    let (uploads, counter) = rule(1);
    let (uploads, events) = Events::of(uploads.with_mode(Mode::SHADOW));
    let layer = InFlightLayer::all([uploads.clone()]).decisions();
    let service = behind_layer(&layer, |request: Request<Body>| {
        let decisions = request.extensions().get::<Decisions>().unwrap();
        assert_eq!(decisions.in_flight().count(), 1);
        two_frames(request)
    });
    let responses = [send(&service).await, send(&service).await];
    assert!(responses.iter().all(|response| response.status() == 200));
    assert!(!responses[1].headers().contains_key("ratelimit-policy"));
    let decisions = responses[1].extensions().get::<Decisions>().unwrap();
    let decided = uploads.decision_in(decisions).unwrap();
    assert!(decided.is_shadow() && !decided.is_admitted());
    assert_eq!((uploads.held(), events.take()), (1, vec!["allowed", "shadow_denied"]));
    assert_eq!(counter.calls(), ["enter", "enter"]);
    drop(responses);
    assert_eq!(uploads.held(), 0);
    // Enforced while requests are served.
    uploads.set_mode(Mode::ENFORCE);
    let _first = send(&service).await;
    assert_eq!(send(&service).await.status(), 429);
}

#[tokio::test]
async fn a_layer_that_is_off_or_skips_counts_nothing() {
    let (uploads, events) = Events::of(rule(1).0);
    let layer = InFlightLayer::all([uploads.clone()]).skip(|head| head.path() == "/health");
    let service = behind_layer(&layer, two_frames);
    let health = Request::builder().uri("/health").body(Body::default()).unwrap();
    let response = service.clone().oneshot(health).await.unwrap();
    assert_eq!((response.status().as_u16(), uploads.held()), (200, 0));
    layer.switch_off();
    let responses = [send(&service).await, send(&service).await];
    assert!(responses.iter().all(|response| response.status() == 200));
    layer.switch_on();
    let counted = send(&service).await;
    assert_eq!((counted.status().as_u16(), uploads.held()), (200, 1));
    assert_eq!(events.take(), ["bypassed", "bypassed", "bypassed", "allowed"]);
}

#[tokio::test]
async fn a_service_that_fails_to_become_ready_gives_back() {
    let (uploads, counter) = rule(5);
    let mut service = InFlightLayer::all([uploads]).layer(waiting::Failing::after(0));
    let mut future: Pin<Box<_>> = Box::pin(service.call(Request::new(Body::default())));
    assert_eq!(counter.held(), 0, "given back before the future is polled");
    assert_eq!(poll_once(future.as_mut()).unwrap().map(|_| ()).unwrap_err(), "closed");
    assert_eq!(counter.calls(), ["enter"]);
}

#[tokio::test]
async fn a_store_that_fails_is_reported_although_another_limit_refuses() {
    let log = Log::start();
    let (first, first_events) = Events::of(rule_of(&Counter::new("first", 9).slow().failing()));
    let (full, full_events) = Events::of(rule_of(&Counter::new("full", 0).slow()));
    let service = behind_layer(&InFlightLayer::all([first, full]), two_frames);
    assert_eq!(send(&service).await.status(), 429);
    assert_eq!((first_events.take(), full_events.take()), (vec!["error_allowed"], vec!["denied"]));
    assert_eq!(log.lines().len(), 1, "{:?}", log.lines());
}

/// A permit is given back before the charge of an outer rate is settled.
#[tokio::test]
async fn permits_are_given_back_before_rates_are_settled() {
    let held = Arc::new(Mutex::new(Vec::new()));
    let uploads = rule(1).0;
    let (seen, observed) = (Arc::clone(&held), uploads.clone());
    let (api, limiter) = rate();
    let api = api.settle(move |_| {
        seen.lock().unwrap().push(observed.held());
        Keep::None
    });
    let service = RateLimitLayer::all([api]).any_body().layer(behind(&uploads, empty));
    request(&service).await;
    assert_eq!((held.lock().unwrap().as_slice(), used(&limiter)), (&[0][..], 0));
    assert!(Limiter::check(&limiter, &"all".into()).await.unwrap().is_admitted());
}

/// A gateway to a language model: attempts, then a place, then tokens by an estimate, which the answer settles.
#[tokio::test]
async fn attempts_permits_and_tokens_are_three_layers() {
    use limiter_tower::settle::Charge;
    let limiter = |name, quota| limiter_of(Policy::gcra(name, quota)).0;
    let attempts = limiter("attempts", Quota::per_hour(100));
    let counted = limiter("tokens", Quota::per_hour(1_000));
    let tokens = for_all(counted.clone()).cost(|_| Cost::of(400));
    let (places, counter) = rule(2);
    let settled = tokens.clone();
    let model = service_fn(move |request: Request<Body>| {
        let charge = request.extensions().get::<Charge>().unwrap().clone();
        // The answer has used more or less than the estimate.
        let used = if request.uri().path() == "/long" { 700 } else { 100 };
        charge.keep(&settled, used);
        two_frames(request)
    });
    let tokens = RateLimitLayer::from(tokens).chargeable().any_body().layer(model);
    let at_once = InFlightLayer::from(places).layer(tokens);
    let service = RateLimitLayer::from(for_all(attempts.clone())).any_body().layer(at_once);
    let send = |path: &'static str| {
        let request = Request::builder().uri(path).body(Body::default()).unwrap();
        let service = service.clone();
        async move { service.oneshot(request).await.unwrap() }
    };
    let used = || (used(&attempts), used(&counted), counter.held());
    let first = send("/short").await;
    assert_eq!((first.status().as_u16(), used()), (200, (1, 100, 1)));
    let second = send("/long").await;
    assert_eq!((second.status().as_u16(), used()), (200, (2, 800, 2)));
    // No place, and no tokens are charged.
    let full = send("/short").await;
    assert!(!full.headers().contains_key("retry-after"));
    assert_eq!((full.status().as_u16(), used()), (429, (3, 800, 2)));
    // A place, which is given back because the tokens don't fit.
    drop(first);
    let dear = send("/short").await;
    assert!(dear.headers().contains_key("retry-after"));
    assert_eq!(dear.status().as_u16(), 429);
    drop(dear);
    assert_eq!(used(), (4, 800, 1));
}
