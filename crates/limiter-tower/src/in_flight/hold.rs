//! What handlers hold.

use std::{
    fmt,
    future::{Future, poll_fn},
    sync::{Arc, Weak},
    task::Poll,
};

use super::permits::{Permits, RulePermit};

/// The permits of a request, for a handler whose work goes on after the response.
///
/// An [`InFlightLayer`](crate::InFlightLayer) inserts it into the extensions of requests. It does
/// not hold the permits itself, so cloned extensions keep nothing. With nested layers it stands for the permits of all of
/// them. With the feature `axum` it is an extractor.
///
/// ```
/// use limiter_tower::in_flight::RequestPermit;
///
/// async fn export(permit: RequestPermit) -> &'static str {
///     let guard = permit.hold();
///     tokio::spawn(async move {
///         // The work, which goes on after the response.
///         drop(guard);
///     });
///     "started"
/// }
/// ```
#[derive(Clone, Default)]
pub struct RequestPermit {
    /// `None` if no limit counts the request.
    permits: Option<Weak<Permits>>,
    /// That of an outer layer.
    outer: Option<Arc<RequestPermit>>,
}

/// Holds the permits of a request, or of other work, until it is dropped.
#[derive(Debug)]
#[must_use = "the permits are given back when it is dropped"]
pub struct HoldGuard {
    held: Vec<Arc<Permits>>,
}

impl RequestPermit {
    pub(crate) fn new(permits: Option<&Arc<Permits>>, outer: Option<&Self>) -> Self {
        let outer = outer.cloned().map(Arc::new);
        Self { permits: permits.map(Arc::downgrade), outer }
    }

    /// Holds the permits until the guard is dropped, and the response has ended as well. `None` if they were given back
    /// before, because the response has ended.
    ///
    /// A request that no limit counts, because the layer skips it, is switched off or has only shadows, has a guard that
    /// holds nothing.
    #[must_use]
    pub fn hold(&self) -> Option<HoldGuard> {
        let mut held = match &self.outer {
            Some(outer) => outer.hold()?.held,
            None => Vec::new(),
        };
        if let Some(permits) = &self.permits {
            held.push(permits.upgrade()?);
        }
        Some(HoldGuard { held })
    }
}

impl HoldGuard {
    pub(super) fn new(permits: Option<Arc<Permits>>) -> Self {
        Self { held: permits.into_iter().collect() }
    }

    /// Returns whether a permit does not count any more, although it is held: the store could not be reached for too
    /// long, or it was held [too long](crate::InFlightRule::max_age).
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.enforced().any(|permit| permit.is_lost())
    }

    /// Waits until a permit [is lost](Self::is_lost); for ever, if none can be lost. Drop work that must not exceed the limit
    /// then.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut lost: Vec<_> = self.enforced().map(RulePermit::lost).collect();
        poll_fn(move |cx| {
            let is_lost = lost.iter_mut().any(|lost| lost.as_mut().poll(cx).is_ready());
            if is_lost { Poll::Ready(()) } else { Poll::Pending }
        })
    }

    fn enforced(&self) -> impl Iterator<Item = &Arc<RulePermit>> {
        let permits = self.held.iter().flat_map(|permits| &permits.of_rules);
        permits.filter(|permit| !permit.is_shadow)
    }
}

#[cfg(feature = "axum")]
crate::head::extractor!(
    RequestPermit,
    "the request has no permit: add an `InFlightLayer` around this route"
);

impl fmt::Debug for RequestPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestPermit").finish_non_exhaustive()
    }
}
