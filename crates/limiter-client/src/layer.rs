//! The configuration of outgoing requests.

use std::{fmt, sync::Arc, time::Duration};

use http::{request, response};
use limiter_core::{
    Algorithm, Error, ErrorKind, MemoryLimiter, OnStoreFailure, Policy, WaitingLimiter,
};
use tower_layer::Layer;

use crate::{
    event::{Event, Reporter},
    hosts::Hosts,
    service::Throttle,
    settings::{LONGEST, Settings},
    spend::Spend,
};

/// Sends requests no faster than their servers allow: [what a response changes](crate#what-a-response-changes).
///
/// A request waits for a permit of its host. A refusal by the server is returned to the caller like any
/// response. Clones share the hosts, with their paces and pauses.
///
/// ```
/// use std::time::Duration;
///
/// use limiter_client::{Policy, Quota, Spend, ThrottleLayer};
///
/// let policy = Policy::gcra("outgoing", Quota::per_second(50));
/// let layer = ThrottleLayer::new(policy)?.within(Duration::from_secs(20)).spend(Spend::Evenly);
/// # Ok::<(), limiter_client::Error>(())
/// ```
#[derive(Clone)]
pub struct ThrottleLayer {
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) settings: Arc<Settings>,
}

impl ThrottleLayer {
    /// Returns a layer whose fastest pace is that of `policy`, for each host. Its hosts and their paces are
    /// those of this process.
    ///
    /// It keeps at most 10,000 hosts, unless requests to more are waiting or in flight, with about 2.8 kB
    /// a host. Beyond that, it forgets the hosts that were used longest ago, those without a pause first.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] if the policy is not one limit by [`Algorithm::Gcra`], because the
    /// pace of a host is another quota of that algorithm.
    pub fn new(policy: Policy) -> Result<Self, Error> {
        check(&policy)?;
        let name = Arc::from(policy.name());
        // A limiter for each host: neither the quotas that a server announces nor the debts of other hosts
        // can take what it needs, and all of it is gone when the host is forgotten.
        let build = move || MemoryLimiter::builder(policy.clone()).capacity(1).build();
        let first: Arc<dyn WaitingLimiter> = Arc::new(build()?);
        Ok(Self::of(name, move || build().map_or_else(|_| Arc::clone(&first), |it| Arc::new(it))))
    }

    /// Returns a layer whose requests wait for permits of `limiter`, by host: for processes that share the
    /// permits of each host through a store, such as Redis. Each process learns the pace from the
    /// responses to its own requests.
    ///
    /// If the limiter's store fails, this process keeps the last pace of each host itself, unless
    /// [`Self::on_store_failure`] says otherwise. That is also so if the limiter admits requests that it does not
    /// count, as one may that has a setting for failures of its store.
    ///
    /// If the limiter can't take the pace of a host, this process keeps that pace itself, and reports
    /// [`PaceKeptHere`](crate::EventKind::PaceKeptHere).
    ///
    /// # Errors
    ///
    /// As [`Self::new`], about the policy of the limiter.
    pub fn with_limiter(limiter: impl WaitingLimiter + 'static) -> Result<Self, Error> {
        check(limiter.policy())?;
        let name = Arc::from(limiter.policy().name());
        let limiter: Arc<dyn WaitingLimiter> = Arc::new(limiter);
        Ok(Self::of(name, move || Arc::clone(&limiter)))
    }

    fn of(
        policy: Arc<str>,
        limiter: impl Fn() -> Arc<dyn WaitingLimiter> + Send + Sync + 'static,
    ) -> Self {
        let settings = Settings {
            limiter: Arc::new(limiter),
            host: None,
            classify: None,
            within: Duration::from_secs(60),
            queue: 1_000,
            longest_pause: Duration::from_secs(2 * 3_600),
            on_store_failure: OnStoreFailure::default(),
            spend: Spend::default(),
            reporter: Reporter::new(policy),
        };
        Self { hosts: Arc::default(), settings: Arc::new(settings) }
    }

    fn set(mut self, set: impl FnOnce(&mut Settings)) -> Self {
        set(Arc::make_mut(&mut self.settings));
        self
    }

    /// Sets by what requests are counted, instead of the host and port of their URI: for instance by
    /// host and account, if a server limits accounts. Requests without one are sent at once. Events and log lines
    /// have it as the host, so it should not be a credential.
    ///
    /// By default, `https://API.`, `https://api:443` and `http://api:80` are one host.
    ///
    /// ```
    /// use limiter_client::{Policy, Quota, ThrottleLayer};
    ///
    /// let layer = ThrottleLayer::new(Policy::gcra("outgoing", Quota::per_second(50)))?;
    /// let layer = layer.host(|head| {
    ///     let account = head.headers.get("x-account")?.to_str().ok()?;
    ///     Some(format!("{account} at {}", head.uri.host()?))
    /// });
    /// # Ok::<(), limiter_client::Error>(())
    /// ```
    #[must_use]
    pub fn host(
        self,
        host: impl Fn(&request::Parts) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.set(|settings| settings.host = Some(Arc::new(host)))
    }

    /// Sets which responses are refusals because of a limit, where their status and fields do not show it: `None` for
    /// [the default](crate#what-a-response-changes).
    ///
    /// GitHub, for instance, may answer 403 because of a secondary limit, and say so in the body alone. A layer inside of
    /// this one that has read the body can insert that into the response's extensions.
    ///
    /// ```
    /// use limiter_client::{Policy, Quota, ThrottleLayer};
    ///
    /// /// Inserted where the body is read.
    /// #[derive(Clone)]
    /// struct SecondaryLimit;
    ///
    /// let layer = ThrottleLayer::new(Policy::gcra("outgoing", Quota::per_second(50)))?;
    /// let layer = layer.classify(|head| head.extensions.get::<SecondaryLimit>().map(|_| true));
    /// # Ok::<(), limiter_client::Error>(())
    /// ```
    #[must_use]
    pub fn classify(
        self,
        is_refusal: impl Fn(&response::Parts) -> Option<bool> + Send + Sync + 'static,
    ) -> Self {
        self.set(|settings| settings.classify = Some(Arc::new(is_refusal)))
    }

    /// Sets how the permits are spent that a server announces. The default is [`Spend::Freely`].
    #[must_use]
    pub fn spend(self, spend: Spend) -> Self {
        self.set(|settings| settings.spend = spend)
    }

    /// Sets the observer that receives the layer's events. It replaces the former one.
    ///
    /// It is called by the task that sends the request, so it should return soon. If it panics, the panic
    /// hook reports that, and the request goes on.
    ///
    /// ```
    /// use limiter_client::{EventKind, Policy, Quota, ThrottleLayer};
    ///
    /// let layer = ThrottleLayer::new(Policy::gcra("outgoing", Quota::per_second(50)))?;
    /// let layer = layer.observe(|event| {
    ///     if let EventKind::Paused { pause } = event.kind {
    ///         println!("{}: no request for {pause:?}", event.host);
    ///     }
    /// });
    /// # Ok::<(), limiter_client::Error>(())
    /// ```
    #[must_use]
    pub fn observe(self, observer: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        self.set(|settings| settings.reporter.observer = Some(Arc::new(observer)))
    }

    /// Sets how long a request may wait, for a permit, for the inner service to be ready, and for a place
    /// [in flight](Self::in_flight), at most 366 days. The default is a minute.
    ///
    /// A request whose host is paused for longer fails at once. One that waits behind others fails when
    /// its time is over.
    #[must_use]
    pub fn within(self, within: Duration) -> Self {
        self.set(|settings| settings.within = within.min(LONGEST))
    }

    /// Sets how many requests may wait for one host in this process, at least one. The default is 1,000.
    #[must_use]
    pub fn queue(self, requests: usize) -> Self {
        self.set(|settings| settings.queue = requests.max(1))
    }

    /// Sets the longest pause that a server can cause, from a second to 366 days, and so the slowest
    /// pace that it can announce, one request in that time. The default is two hours, because the windows
    /// of many servers are an hour.
    #[must_use]
    pub fn longest_pause(self, pause: Duration) -> Self {
        let pause = pause.clamp(Duration::from_secs(1), LONGEST);
        self.set(|settings| settings.longest_pause = pause)
    }

    /// Sets what follows if the limiter's store fails. By default, the request is sent without a permit, at the last pace
    /// of its host, which this process keeps: an outage of the store is neither an outage of the client nor a flood for the
    /// host. Other processes do the same, so the host may receive as many times the pace as there are processes. With
    /// [`OnStoreFailure::Deny`], the request fails with [`NotSent::Store`](crate::NotSent::Store).
    #[must_use]
    pub fn on_store_failure(self, choice: OnStoreFailure) -> Self {
        self.set(|settings| settings.on_store_failure = choice)
    }
}

/// Fails unless a policy can have the pace of a host.
fn check(policy: &Policy) -> Result<(), Error> {
    if matches!(policy.limits(), [limit] if limit.algorithm() == Algorithm::Gcra) {
        return Ok(());
    }
    let (name, families) = (policy.name(), policy.families());
    let message = format!(
        "invalid policy \"{name}\" of outgoing requests, by {families}: use one limit by gcra"
    );
    Err(Error::new(ErrorKind::InvalidSetting, message))
}

impl<S> Layer<S> for ThrottleLayer {
    type Service = Throttle<S>;

    fn layer(&self, inner: S) -> Throttle<S> {
        Throttle { hosts: Arc::clone(&self.hosts), settings: Arc::clone(&self.settings), inner }
    }
}

impl fmt::Debug for ThrottleLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ThrottleLayer").field(&self.settings).finish()
    }
}
