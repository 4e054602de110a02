//! What the layer reports: events, and from them metrics and log lines.

#[cfg(feature = "metrics")]
use std::sync::Once;
#[cfg(feature = "tracing")]
use std::sync::atomic::{AtomicBool, Ordering};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use http::StatusCode;
use limiter_core::{Error, Quota};

use crate::NotSent;

/// What happened to a request, or became known about a host.
///
/// `Debug` prints no credentials: see [`ThrottleError`](crate::ThrottleError).
///
/// Metrics are labelled by the policy and by [`EventKind::name`], and never by the host, because there
/// can be any number of hosts.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Event<'a> {
    /// The name of the layer's policy.
    pub policy: &'a str,
    /// The host, with its port unless that is the scheme's own, or what
    /// [`ThrottleLayer::host`](crate::ThrottleLayer::host) returned instead.
    pub host: &'a str,
    /// What happened.
    pub kind: EventKind<'a>,
}

/// What happened.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum EventKind<'a> {
    /// A request was sent, after it had waited for this long.
    Sent {
        /// The wait for the permit and for the inner service.
        waited: Duration,
    },
    /// A request was not sent.
    NotSent {
        /// How long it had waited.
        waited: Duration,
        /// The error that its caller receives.
        error: &'a NotSent,
    },
    /// A request was sent, and the inner service returned an error instead of a response.
    Failed {
        /// The text of the error that its caller receives, in which URIs have only their host and path.
        error: &'a str,
    },
    /// The server refused a request.
    Refused {
        /// The status of the response.
        status: StatusCode,
    },
    /// A pause has begun or was extended: no request is sent to the host for this long.
    Paused {
        /// At most [`longest_pause`](crate::ThrottleLayer::longest_pause).
        pause: Duration,
    },
    /// The host has another pace.
    PaceChanged {
        /// The new pace.
        quota: Quota,
    },
    /// The limiter's [`with_policy`](limiter_core::Limiter::with_policy) failed for the pace of the host. This
    /// process keeps the pace itself.
    PaceKeptHere {
        /// The error of the limiter.
        error: &'a Error,
    },
    /// The limiter's store failed, and [`OnStoreFailure`](crate::OnStoreFailure) applies.
    StoreFailed {
        /// The error of the limiter.
        error: &'a Error,
    },
    /// The refund of a permit that was not used failed.
    RefundFailed,
}

impl EventKind<'_> {
    /// Returns what happened as metrics name it, such as `wait_too_long`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sent { .. } => "sent",
            Self::NotSent { error: NotSent::WaitTooLong { .. }, .. } => "wait_too_long",
            Self::NotSent { error: NotSent::QueueFull, .. } => "queue_full",
            Self::NotSent { error: NotSent::Store(_), .. } => "denied",
            Self::Failed { .. } => "failed",
            Self::Refused { .. } => "refused",
            Self::Paused { .. } => "paused",
            Self::PaceChanged { .. } => "pace_changed",
            Self::PaceKeptHere { .. } => "pace_kept_here",
            Self::StoreFailed { .. } => "store_failed",
            Self::RefundFailed => "refund_failed",
        }
    }
}

type Observer = Arc<dyn Fn(&Event<'_>) + Send + Sync>;

/// Reports the events of a layer.
#[derive(Clone)]
pub(crate) struct Reporter {
    pub(crate) policy: Arc<str>,
    pub(crate) observer: Option<Observer>,
    /// Whether a failure of the limiter was logged as a warning.
    #[cfg(feature = "tracing")]
    pub(crate) has_warned: Arc<AtomicBool>,
    /// Whether the recorder has the help texts.
    #[cfg(feature = "metrics")]
    pub(crate) has_described: Arc<Once>,
}

impl Reporter {
    pub(crate) fn new(policy: Arc<str>) -> Self {
        Self {
            policy,
            observer: None,
            #[cfg(feature = "tracing")]
            has_warned: Arc::default(),
            #[cfg(feature = "metrics")]
            has_described: Arc::new(Once::new()),
        }
    }

    /// Reports an event to metrics, log and observer. No lock may be held.
    pub(crate) fn report(&self, host: &str, kind: EventKind<'_>) {
        let event = Event { policy: &self.policy, host, kind };
        #[cfg(feature = "metrics")]
        {
            self.has_described.call_once(describe);
            record(&self.policy, kind);
        }
        #[cfg(feature = "tracing")]
        log(&event, &self.has_warned);
        if let Some(observer) = &self.observer {
            // A panic has been reported by the panic hook, and is not the request's fault.
            let _ = catch_unwind(AssertUnwindSafe(|| observer(&event)));
        }
    }
}

#[cfg(feature = "metrics")]
fn describe() {
    use metrics::{Unit::Seconds, describe_counter, describe_histogram};

    describe_counter!("ratelimit_client_events_total", "Events of requests that a limit paces.");
    describe_histogram!(
        "ratelimit_client_wait_seconds",
        Seconds,
        "How long a request waited for the limit."
    );
    describe_histogram!(
        "ratelimit_client_pause_seconds",
        Seconds,
        "How long a server's refusal pauses its requests."
    );
}

#[cfg(feature = "metrics")]
fn record(policy: &Arc<str>, kind: EventKind<'_>) {
    let policy = metrics::SharedString::from_shared(Arc::clone(policy));
    let labels = [("policy", policy.clone()), ("event", kind.name().into())];
    metrics::counter!("ratelimit_client_events_total", &labels).increment(1);
    match kind {
        EventKind::Sent { waited } | EventKind::NotSent { waited, .. } => {
            metrics::histogram!("ratelimit_client_wait_seconds", "policy" => policy).record(waited);
        }
        EventKind::Paused { pause } => {
            metrics::histogram!("ratelimit_client_pause_seconds", "policy" => policy).record(pause);
        }
        _ => {}
    }
}

/// The first failure of the limiter is a warning. All else is for debugging, because it may happen with each
/// request.
#[cfg(feature = "tracing")]
fn log(&Event { policy, host, kind }: &Event<'_>, has_warned: &AtomicBool) {
    macro_rules! log {
        ($level:ident, $($rest:tt)+) => {
            tracing::$level!(target: "limiter_client", policy, host, $($rest)+)
        };
    }
    match kind {
        EventKind::Sent { waited } => log!(trace, ?waited, "request sent"),
        EventKind::NotSent { waited, error } => {
            log!(debug, ?waited, %error, "request not sent");
        }
        EventKind::Failed { error } => log!(debug, error, "request failed"),
        EventKind::Refused { status } => log!(debug, %status, "request refused by the server"),
        EventKind::Paused { pause } => log!(debug, ?pause, "host paused"),
        EventKind::PaceChanged { quota } => log!(debug, %quota, "pace changed"),
        EventKind::PaceKeptHere { .. }
        | EventKind::StoreFailed { .. }
        | EventKind::RefundFailed
            if !has_warned.swap(true, Ordering::Relaxed) =>
        {
            log!(warn, ?kind, "rate limiter failed; later failures are logged at the level debug");
        }
        EventKind::PaceKeptHere { error } => log!(debug, %error, "pace not taken by the limiter"),
        EventKind::StoreFailed { error } => log!(debug, %error, "rate limit store failed"),
        EventKind::RefundFailed => log!(debug, "refund failed"),
    }
}
