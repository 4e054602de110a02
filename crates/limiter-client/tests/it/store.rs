//! Failures of the limiter's store.

use std::{
    any::Any,
    sync::atomic::{AtomicU8, Ordering},
};

use limiter_client::OnStoreFailure;
use limiter_core::{
    Cost, Decision, Error, Key, Limiter, LimiterFuture, LimiterId, Receipt, Reservation, Source,
    Usage, WaitingLimiter,
};

use crate::*;

/// A limiter through a store that a test takes away.
#[derive(Clone)]
pub(crate) struct Store {
    limiter: MemoryLimiter<TokioClock>,
    state: Arc<AtomicU8>,
}

/// What a store does.
#[derive(Clone, Copy)]
pub(crate) enum Now {
    Works = 0,
    Fails = 1,
    /// It fails, and the limiter itself admits what it can't count.
    Admits = 2,
    /// It works, and takes no other policy.
    KeepsPolicy = 3,
}

impl Store {
    pub(crate) fn new(quota: Quota) -> Self {
        Self { limiter: limiter(quota), state: Arc::default() }
    }

    pub(crate) fn set(&self, now: Now) {
        self.state.store(now as u8, Ordering::Relaxed);
    }

    fn is(&self, now: Now) -> bool {
        self.state.load(Ordering::Relaxed) == now as u8
    }

    fn unless_it_fails<T: Send + 'static>(
        &self,
        work: impl FnOnce(&MemoryLimiter<TokioClock>) -> LimiterFuture<T>,
    ) -> LimiterFuture<T> {
        if self.is(Now::Works) || self.is(Now::KeepsPolicy) {
            return work(&self.limiter);
        }
        LimiterFuture::pending(async { Err(Error::new(ErrorKind::Unavailable, "no connection")) })
    }
}

impl Limiter for Store {
    fn policy(&self) -> &Policy {
        self.limiter.policy()
    }

    fn check_n(&self, key: &Key<'_>, cost: Cost) -> LimiterFuture<Decision> {
        self.unless_it_fails(|limiter| Limiter::check_n(limiter, key, cost))
    }

    fn peek(&self, key: &Key<'_>) -> LimiterFuture<Usage> {
        self.unless_it_fails(|limiter| Limiter::peek(limiter, key))
    }

    fn reserve(&self, key: &Key<'_>, cost: Cost, within: Duration) -> LimiterFuture<Reservation> {
        self.unless_it_fails(|limiter| Limiter::reserve(limiter, key, cost, within))
    }

    fn take_up_to(&self, key: &Key<'_>, most: Cost) -> LimiterFuture<Reservation> {
        self.unless_it_fails(|limiter| Limiter::take_up_to(limiter, key, most))
    }

    fn charge(&self, key: &Key<'_>, cost: Cost) -> LimiterFuture<Reservation> {
        self.unless_it_fails(|limiter| Limiter::charge(limiter, key, cost))
    }

    fn refund(&self, receipt: Receipt) -> LimiterFuture<u64> {
        self.unless_it_fails(|limiter| Limiter::refund(limiter, receipt))
    }

    fn reset(&self, key: &Key<'_>) -> LimiterFuture<()> {
        self.unless_it_fails(|limiter| Limiter::reset(limiter, key))
    }

    fn with_policy(&self, policy: &Policy) -> Result<Arc<dyn Limiter>, Error> {
        Limiter::with_policy(&self.limiter, policy)
    }

    fn sibling(&self, policy: &Policy) -> Result<Arc<dyn Limiter>, Error> {
        Limiter::sibling(&self.limiter, policy)
    }
}

impl limiter_core::Store for Store {
    fn id(&self) -> LimiterId {
        self.limiter.id()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl WaitingLimiter for Store {
    fn acquire(
        &self,
        key: &Key<'_>,
        cost: Cost,
        within: Option<Duration>,
    ) -> LimiterFuture<Reservation> {
        if self.is(Now::Admits) {
            let decision = Decision::admitted(Usage::new(10, 10, Duration::ZERO));
            let decision = decision.with_source(Source::Local);
            return LimiterFuture::ready(Ok(Reservation::uncounted(decision, 1)));
        }
        self.unless_it_fails(|limiter| WaitingLimiter::acquire(limiter, key, cost, within))
    }

    fn waiting_with_policy(&self, policy: &Policy) -> Result<Arc<dyn WaitingLimiter>, Error> {
        if self.is(Now::KeepsPolicy) {
            return Err(Error::new(ErrorKind::InvalidSetting, "no other policy"));
        }
        let limiter = self.limiter.with_policy(policy)?;
        Ok(Arc::new(Self { limiter, state: Arc::clone(&self.state) }))
    }
}

fn patient(store: &Store) -> ThrottleLayer {
    ThrottleLayer::with_limiter(store.clone()).unwrap().within(1_000 * SECOND)
}

/// The layer's own pace, that which the server announced, and a fast one with its burst: the timer has a resolution of
/// a millisecond.
#[tokio::test(start_paused = true)]
async fn while_the_store_fails_the_pace_is_kept() {
    let own = Quota::per_second(10).with_burst(1);
    let fast = Quota::per_second(5_000).with_burst(100);
    let announced: Fields<'static> = &[("ratelimit-policy", r#""api";q=2;w=1"#)];
    let rows: [(Quota, Fields<'static>, Now, usize, std::ops::Range<f64>); 5] = [
        (own, &[], Now::Fails, 50, 4.9..5.2),
        (own, &[], Now::Admits, 50, 4.9..5.2),
        (Quota::per_second(1_000), announced, Now::Fails, 20, 9.0..11.0),
        (Quota::per_second(1_000), announced, Now::Admits, 20, 9.0..11.0),
        (fast, &[], Now::Fails, 900, 0.15..0.25),
    ];
    for (row, (quota, fields, now, count, expected)) in rows.into_iter().enumerate() {
        let store = Store::new(quota);
        let client = client(&patient(&store), &Log::default(), move |_| response(200, fields));
        assert_eq!(get(&client, "a.example").await.unwrap(), 200);
        store.set(now);
        let start = Instant::now();
        send_all(&client, "a.example", count).await;
        let seconds = start.elapsed().as_secs_f64();
        assert!(expected.contains(&seconds), "row {row}: {seconds}");
    }
}

/// A burst that the store has admitted is not admitted again when the store fails.
#[tokio::test(start_paused = true)]
async fn a_failing_store_gives_no_new_burst() {
    let store = Store::new(Quota::per_minute(60).with_burst(10));
    let client = client(&patient(&store), &Log::default(), |_| response(200, &[]));
    send_all(&client, "a.example", 10).await;
    store.set(Now::Fails);
    let start = Instant::now();
    send_all(&client, "a.example", 10).await;
    assert!(start.elapsed() >= 9 * SECOND, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_the_store_is_reported_and_its_end_is_noticed() {
    let store = Store::new(Quota::per_second(1_000).with_burst(1));
    let (layer, events) = observed(patient(&store));
    let client = client(&layer, &Log::default(), |_| response(200, &[]));
    for now in [Now::Works, Now::Fails, Now::Fails, Now::Works] {
        store.set(now);
        assert_eq!(get(&client, "a.example").await.unwrap(), 200);
        sleep(SECOND).await;
    }
    let events = events.lock().unwrap();
    assert_eq!(*events, ["sent", "store_failed", "sent", "store_failed", "sent", "sent"]);
}

#[tokio::test(start_paused = true)]
async fn requests_fail_with_the_store_if_the_user_wants_that() {
    let store = Store::new(Quota::per_second(1_000));
    let layer = patient(&store).on_store_failure(OnStoreFailure::Deny);
    let client = client(&layer, &Log::default(), |_| response(200, &[]));
    store.set(Now::Fails);
    let error = get(&client, "a.example").await.unwrap_err();
    assert!(matches!(&error, ThrottleError::NotSent(NotSent::Store(_))), "{error:?}");
    assert!(error.to_string().contains("no connection"), "{error}");
    store.set(Now::Works);
    assert_eq!(get(&client, "a.example").await.unwrap(), 200);
}

/// A request whose permit would be too late fails at once, also without the store.
#[tokio::test(start_paused = true)]
async fn without_a_store_a_request_that_would_wait_too_long_fails_at_once() {
    let store = Store::new(Quota::per_minute(1));
    let layer = patient(&store).within(SECOND);
    let client = client(&layer, &Log::default(), |_| response(200, &[]));
    assert_eq!(get(&client, "a.example").await.unwrap(), 200);
    store.set(Now::Fails);
    let start = Instant::now();
    let error = get(&client, "a.example").await.unwrap_err();
    assert!(
        matches!(error, ThrottleError::NotSent(NotSent::WaitTooLong { retry_after: Some(_), .. })),
        "{error:?}"
    );
    assert!(start.elapsed() < SECOND, "{:?}", start.elapsed());
}
