//! A limiter in memory that answers as a store does: not at once.

use std::{
    any::Any,
    future::{Future, poll_fn},
    mem::replace,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use limiter_core::{
    Cost, Decision, Error, ErrorKind, Key, Limiter, LimiterFuture, LimiterId, ManualClock,
    MemoryLimiter, Policy, Receipt, Reservation, Store, Usage, WaitingLimiter,
};

/// A limiter whose operations are executed when their answers are polled for the second time, and
/// which fails on request.
#[derive(Clone, Debug)]
pub struct Deferred {
    inner: MemoryLimiter<ManualClock>,
    id: LimiterId,
    is_at_once: bool,
    loses_waiters: bool,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    failure: Mutex<Option<Error>>,
    calls: AtomicU64,
    checks: AtomicU64,
    refunds: AtomicU64,
}

impl Deferred {
    /// Returns a limiter with the states of `inner`.
    #[must_use]
    pub fn new(inner: MemoryLimiter<ManualClock>) -> Self {
        Self {
            inner,
            id: LimiterId::new(),
            is_at_once: false,
            loses_waiters: false,
            shared: Arc::default(),
        }
    }

    /// Executes operations when they are called, as a server does whose caller leaves meanwhile. Their answers are still
    /// late.
    #[must_use]
    pub fn at_once(self) -> Self {
        Self { is_at_once: true, ..self }
    }

    /// Lets waiters lose their connection.
    #[must_use]
    pub fn losing_waiters(self) -> Self {
        Self { loses_waiters: true, ..self }
    }

    /// Sets whether operations fail from now on, because there is no connection.
    pub fn set_failing(&self, fails: bool) {
        self.fail_with(fails.then(|| Error::new(ErrorKind::Unavailable, "no connection")));
    }

    /// Sets the error with which operations fail from now on, if they do.
    pub fn fail_with(&self, failure: Option<Error>) {
        *self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    /// Returns how many operations were executed or have failed.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.shared.calls.load(Ordering::Relaxed)
    }

    /// Returns how many checks were executed.
    #[must_use]
    pub fn checks(&self) -> u64 {
        self.shared.checks.load(Ordering::Relaxed)
    }

    /// Returns how many refunds were executed.
    #[must_use]
    pub fn refunds(&self) -> u64 {
        self.shared.refunds.load(Ordering::Relaxed)
    }

    /// Executes an operation on a key when it is polled for the second time, or at once.
    fn later<T, F>(
        &self,
        key: &Key<'_>,
        operation: impl FnOnce(Self, Key<'static>) -> F + Send + 'static,
    ) -> LimiterFuture<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send,
    {
        let (this, key) = (self.clone(), key.clone().into_owned());
        let mut executed = Box::pin(async move {
            this.shared.calls.fetch_add(1, Ordering::Relaxed);
            let failure =
                this.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
            match failure {
                Some(error) => Err(error),
                None => operation(this, key).await,
            }
        });
        let mut answer = None;
        if self.is_at_once
            && let Poll::Ready(result) =
                executed.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        {
            answer = Some(result);
        }
        LimiterFuture::pending(async move {
            let mut polled = false;
            poll_fn(|cx| match replace(&mut polled, true) {
                true => Poll::Ready(()),
                false => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
            })
            .await;
            match answer {
                Some(answer) => answer,
                None => executed.await,
            }
        })
    }
}

impl Limiter for Deferred {
    fn policy(&self) -> &Policy {
        self.inner.policy()
    }

    fn check_n(&self, key: &Key<'_>, cost: Cost) -> LimiterFuture<Decision> {
        self.later(key, move |this, key| {
            this.shared.checks.fetch_add(1, Ordering::Relaxed);
            Limiter::check_n(&this.inner, &key, cost)
        })
    }

    fn peek(&self, key: &Key<'_>) -> LimiterFuture<Usage> {
        self.later(key, move |this, key| Limiter::peek(&this.inner, &key))
    }

    fn reserve(&self, key: &Key<'_>, cost: Cost, within: Duration) -> LimiterFuture<Reservation> {
        self.later(key, move |this, key| {
            this.shared.checks.fetch_add(1, Ordering::Relaxed);
            Limiter::reserve(&this.inner, &key, cost, within)
        })
    }

    fn take_up_to(&self, key: &Key<'_>, most: Cost) -> LimiterFuture<Reservation> {
        self.later(key, move |this, key| {
            this.shared.checks.fetch_add(1, Ordering::Relaxed);
            Limiter::take_up_to(&this.inner, &key, most)
        })
    }

    fn charge(&self, key: &Key<'_>, cost: Cost) -> LimiterFuture<Reservation> {
        self.later(key, move |this, key| Limiter::charge(&this.inner, &key, cost))
    }

    fn refund(&self, receipt: Receipt) -> LimiterFuture<u64> {
        self.later(&Key::from(""), move |this, _| {
            this.shared.refunds.fetch_add(1, Ordering::Relaxed);
            Limiter::refund(&this.inner, receipt)
        })
    }

    fn reset(&self, key: &Key<'_>) -> LimiterFuture<()> {
        self.later(key, move |this, key| Limiter::reset(&this.inner, &key))
    }

    fn with_policy(&self, policy: &Policy) -> Result<Arc<dyn Limiter>, Error> {
        Ok(Arc::new(self.under(policy)?))
    }

    fn sibling(&self, policy: &Policy) -> Result<Arc<dyn Limiter>, Error> {
        let (inner, id) = (self.inner.sibling(policy), self.id.sibling());
        Ok(Arc::new(Self { inner, id, shared: Arc::clone(&self.shared), ..*self }))
    }
}

impl Store for Deferred {
    fn id(&self) -> LimiterId {
        self.id
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl WaitingLimiter for Deferred {
    fn acquire(
        &self,
        key: &Key<'_>,
        cost: Cost,
        within: Option<Duration>,
    ) -> LimiterFuture<Reservation> {
        if self.loses_waiters {
            let lost = Error::new(ErrorKind::Unavailable, "no connection");
            return self.later(key, |_, _| LimiterFuture::ready(Err(lost)));
        }
        self.later(key, move |this, key| WaitingLimiter::acquire(&this.inner, &key, cost, within))
    }

    fn waiting_with_policy(&self, policy: &Policy) -> Result<Arc<dyn WaitingLimiter>, Error> {
        Ok(Arc::new(self.under(policy)?))
    }
}

impl Deferred {
    fn under(&self, policy: &Policy) -> Result<Self, Error> {
        let inner = self.inner.with_policy(policy)?;
        Ok(Self { inner, shared: Arc::clone(&self.shared), ..*self })
    }
}
