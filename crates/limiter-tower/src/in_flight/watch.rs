//! Watches whether permits are lost, while a request is served.

use std::{
    error, fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::Context,
};

use super::permits::Permits;

type Lost = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The error that ends a response's body after its request has lost its permit: see
/// [`InFlightRule::strict`](crate::InFlightRule::strict).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitLost;

impl fmt::Display for PermitLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request has lost its permit while its response was sent")
    }
}

impl error::Error for PermitLost {}

/// Holds the permits of a request while its future or its body exists.
pub(super) struct Hold {
    pub(super) permits: Arc<Permits>,
    /// The permits that can be lost, by their places. The lock is never taken: it makes the futures `Sync`.
    lost: Mutex<Vec<(usize, Lost)>>,
}

impl Hold {
    pub(super) fn new(permits: Arc<Permits>) -> Self {
        let of_rules = permits.of_rules.iter().enumerate();
        let can_be_lost = of_rules.filter(|(_, permit)| !permit.is_shadow && permit.can_be_lost());
        let lost = can_be_lost.map(|(place, permit)| (place, permit.lost())).collect();
        Self { permits, lost: Mutex::new(lost) }
    }

    /// Returns whether a strict rule ends the request when its permit is lost.
    pub(super) fn is_strict(&mut self) -> bool {
        let Self { permits, lost } = self;
        let lost = lost.get_mut().unwrap_or_else(PoisonError::into_inner);
        lost.iter().any(|(place, _)| permits.is_strict(*place))
    }

    /// Reports the permits that are lost, and returns whether the request must end because of it.
    pub(super) fn must_end(&mut self, cx: &mut Context<'_>) -> bool {
        let Self { permits, lost } = self;
        let mut must_end = false;
        lost.get_mut().unwrap_or_else(PoisonError::into_inner).retain_mut(|(place, lost)| {
            let Some(permit) = permits.of_rules.get(*place) else { return false };
            // A process that was stopped may learn of the loss by the clock, before the future is woken.
            let is_lost = permit.is_lost() || lost.as_mut().poll(cx).is_ready();
            if is_lost {
                permit.report_loss();
                must_end |= permits.is_strict(*place);
            }
            !is_lost
        });
        must_end
    }
}

impl Permits {
    fn is_strict(&self, place: usize) -> bool {
        self.of_rules.get(place).is_some_and(|permit| permit.rule.settings.is_strict)
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").field("permits", &self.permits).finish_non_exhaustive()
    }
}
