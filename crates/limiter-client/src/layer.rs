//! The configuration of outgoing requests.

use std::{fmt, sync::Arc, time::Duration};

use http::request::Parts;
use limiter_core::{Algorithm, Error, ErrorKind, Limiter as _, WaitingLimiter};
use tower_layer::Layer;

use crate::{error::OnStoreFailure, hosts::Hosts, service::Throttle};

/// The longest time that can be set, so that no moment overflows.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// Returns the host that a request is counted for.
type HostFn = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;

/// Sends requests no faster than their server allows.
///
/// A request waits for a permit of the limiter, under the host that it is for. The limiter's policy is the
/// fastest pace; the responses of a host slow it down:
///
/// - **Refusals.** After 429 or 503 with `Retry-After`, in seconds or as a date, no request is sent to that
///   host until then.
/// - **Announced limits.** The pace is that of `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-07
///   to 11), of `RateLimit-Limit`, `-Remaining` and `-Reset` (drafts 03 to 06), or of `X-RateLimit-*`. If
///   less remains than the pace would use, the remainder is spread over the time. Of several limits, the
///   slowest decides. A twentieth of the permits may be sent at once, or a quarter of an announced burst.
///   An announcement that is not repeated is forgotten after the [longest pause](Self::longest_pause).
/// - **Refusals without either.** A refusal by a host that announces no limits, or that does not say when to
///   retry, cuts the pace to three quarters of the rate at which requests were sent. Each second with an
///   admission adds a twentieth of that rate, up to the limiter's policy.
///
/// The first request to a host is sent alone: the others wait for its response, which may announce
/// limits. Give the inner service a time-out, so that this wait ends.
///
/// A refusal is returned to the caller like any response. To send a request again, put a retry layer
/// around this one; the next attempt waits for the pause's end.
///
/// Clones share the hosts, with their paces and pauses. With a limiter in memory, they are those of
/// this process. With one in a store, processes share the permits as well, and each process learns the
/// pace from its own responses. Build a limiter in memory with
/// [`wide_states`](limiter_core::Builder::wide_states), because the servers choose the paces: without them
/// a limiter knows 65,535 different quotas in its life, and beyond that, hosts keep the pace that they have.
///
/// ```
/// use std::time::Duration;
///
/// use bytes::Bytes;
/// use http::{Request, Response};
/// use limiter_client::{MemoryLimiter, Policy, Quota, ThrottleLayer};
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // At most 50/s to each host, and less if it asks for that.
/// let policy = Policy::gcra("outgoing", Quota::per_second(50));
/// let limiter = MemoryLimiter::builder(policy).wide_states().build()?;
/// let layer = ThrottleLayer::new(limiter)?.within(Duration::from_secs(20));
///
/// // In a program, the client of hyper-util.
/// # let client = service_fn(async |_: Request<Bytes>| Ok::<_, std::io::Error>(Response::new(Bytes::new())));
/// let client = ServiceBuilder::new().layer(layer).service(client);
/// let request = Request::get("http://api.example/").body(Bytes::new())?;
/// let response = client.oneshot(request).await?;
/// # assert!(response.status().is_success());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ThrottleLayer {
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) limiter: Arc<dyn WaitingLimiter>,
    pub(crate) host: HostFn,
    pub(crate) within: Duration,
    pub(crate) queue: usize,
    pub(crate) longest_pause: Duration,
    pub(crate) on_store_failure: OnStoreFailure,
}

impl ThrottleLayer {
    /// Returns a layer whose requests wait for permits of `limiter`, by host.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] if the limiter's policy is not one limit by [`Algorithm::Gcra`],
    /// because the pace of a host is set as another quota of that algorithm.
    pub fn new(limiter: impl WaitingLimiter + 'static) -> Result<Self, Error> {
        let policy = limiter.policy();
        if !matches!(policy.limits(), [limit] if limit.algorithm() == Algorithm::Gcra) {
            let families = policy.families();
            let message = format!(
                "invalid policy \"{}\" of outgoing requests, by {families}: use one limit by gcra",
                policy.name()
            );
            return Err(Error::new(ErrorKind::InvalidSetting, message));
        }
        Ok(Self {
            hosts: Arc::default(),
            limiter: Arc::new(limiter),
            host: Arc::new(host_of),
            within: Duration::from_secs(60),
            queue: 1_000,
            longest_pause: Duration::from_secs(600),
            on_store_failure: OnStoreFailure::default(),
        })
    }

    /// Sets by what requests are counted, instead of the host and port of their URI: for instance by
    /// host and account, if a server limits accounts. Requests without one are sent at once.
    #[must_use]
    pub fn host(self, host: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        Self { host: Arc::new(host), ..self }
    }

    /// Sets how long a request may wait, for a permit and for the inner service to be ready, at most
    /// 366 days. The default is a minute.
    ///
    /// A request whose host is paused for longer fails at once. One that waits behind others fails when
    /// its time is over.
    #[must_use]
    pub fn within(self, within: Duration) -> Self {
        Self { within: within.min(LONGEST), ..self }
    }

    /// Sets how many requests may wait for one host in this process, at least one. The default is 1,000.
    #[must_use]
    pub fn queue(self, requests: usize) -> Self {
        Self { queue: requests.max(1), ..self }
    }

    /// Sets the longest pause that a server can cause, from a second to 366 days, and so the slowest
    /// pace, one request in that time. The default is ten minutes.
    #[must_use]
    pub fn longest_pause(self, pause: Duration) -> Self {
        Self { longest_pause: pause.clamp(Duration::from_secs(1), LONGEST), ..self }
    }

    /// Sets what follows if the limiter's store fails. By default, the request is sent.
    #[must_use]
    pub fn on_store_failure(self, choice: OnStoreFailure) -> Self {
        Self { on_store_failure: choice, ..self }
    }
}

/// Returns the host and port of a request, from its URI or else from its `Host` field.
#[expect(clippy::unnecessary_wraps, reason = "it is the default of a closure that may return none")]
fn host_of(head: &Parts) -> Option<String> {
    let named = || head.headers.get(http::header::HOST)?.to_str().ok();
    let host = head.uri.authority().map(http::uri::Authority::as_str).or_else(named);
    // Without the user's name.
    let host = host.map(|host| host.rsplit('@').next().unwrap_or_default().to_ascii_lowercase());
    // Requests without a host share one pace, because they go to whichever host the client has.
    Some(host.unwrap_or_default())
}

impl<S> Layer<S> for ThrottleLayer {
    type Service = Throttle<S>;

    fn layer(&self, inner: S) -> Throttle<S> {
        Throttle { layer: self.clone(), inner }
    }
}

impl fmt::Debug for ThrottleLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThrottleLayer")
            .field("policy", self.limiter.policy())
            .field("within", &self.within)
            .field("queue", &self.queue)
            .field("longest_pause", &self.longest_pause)
            .field("on_store_failure", &self.on_store_failure)
            .finish_non_exhaustive()
    }
}
