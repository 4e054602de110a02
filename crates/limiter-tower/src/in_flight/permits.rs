//! The permits of one request.

use std::{
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::Poll,
};

use limiter_core::{InFlightPermit, Key};

use super::{
    InFlightRule,
    event::InFlightEventKind,
    signal::{Progress, Signal, Watcher},
};
use crate::{rule::Flag, settle::spawn_on_tokio};

/// The permit of one rule. It is given back when this is dropped.
pub(crate) struct RulePermit {
    pub(super) rule: InFlightRule,
    /// For the observers. `None` if there are none.
    key: Option<Key<'static>>,
    pub(super) is_shadow: bool,
    /// `None` once it was given back because it was held too long.
    permit: Mutex<Option<InFlightPermit>>,
    /// What ends the task that waits for the longest hold, if the rule has one.
    signal: Option<Arc<Signal>>,
    loss_reported: Flag,
}

/// The permits of one request. They are given back when the last reference is dropped: that of the response's future or
/// body, or of what a handler holds.
#[derive(Debug)]
pub(crate) struct Permits {
    pub(super) of_rules: Box<[RulePermit]>,
}

impl Permits {
    /// Returns the permits of a request, `None` if there are none.
    pub(crate) fn new(of_rules: Vec<RulePermit>) -> Option<Arc<Self>> {
        if of_rules.is_empty() {
            return None;
        }
        let permits = Arc::new(Self { of_rules: of_rules.into() });
        for (place, permit) in permits.of_rules.iter().enumerate() {
            permit.start_max_hold(Arc::downgrade(&permits), place);
        }
        Some(permits)
    }

    /// Reports that the response has switched protocols and that nothing holds the permits.
    pub(crate) fn report_upgrade(&self) {
        for permit in &self.of_rules {
            permit.rule.live().log_upgrade();
            permit.report(InFlightEventKind::UpgradeNotHeld);
        }
    }
}

impl RulePermit {
    pub(super) fn new(
        rule: &InFlightRule,
        key: &Key<'_>,
        is_shadow: bool,
        permit: InFlightPermit,
    ) -> Self {
        rule.live().taken();
        Self {
            rule: rule.clone(),
            key: rule.is_observed().then(|| Key::from(key).into_owned()),
            is_shadow,
            permit: Mutex::new(Some(permit)),
            signal: rule.settings.max_hold.as_ref().map(|_| Arc::default()),
            loss_reported: Flag::default(),
        }
    }

    /// Returns whether the permit does not count any more, although the work has not ended.
    pub(super) fn is_lost(&self) -> bool {
        self.lock().as_ref().is_none_or(InFlightPermit::is_lost)
    }

    /// Returns whether the permit can be lost at all.
    pub(super) fn can_be_lost(&self) -> bool {
        self.signal.is_some() || self.lock().as_ref().is_none_or(InFlightPermit::can_be_lost)
    }

    /// Returns a future that is ready once the permit is lost.
    pub(super) fn lost(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut of_store = self.lock().as_ref().map(|permit| Box::pin(permit.lost()));
        let mut watcher = self.signal.as_ref().map(Signal::watch);
        Box::pin(poll_fn(move |cx| {
            let is_too_long =
                |watcher: &mut Watcher| watcher.poll(cx) == Poll::Ready(Progress::TooLong);
            match &mut of_store {
                _ if watcher.as_mut().is_some_and(is_too_long) => Poll::Ready(()),
                Some(lost) => lost.as_mut().poll(cx),
                None => Poll::Pending,
            }
        }))
    }

    /// Reports that the permit is lost, once. That it was held too long is reported when that happens.
    pub(super) fn report_loss(&self) {
        let is_too_long = self.signal.as_ref().is_some_and(|it| it.get() == Progress::TooLong);
        if !is_too_long && self.loss_reported.turn_on() {
            self.report(InFlightEventKind::Lost);
        }
    }

    fn report(&self, kind: InFlightEventKind) {
        self.rule.report_permit(kind, self.key.as_ref());
    }

    /// Starts a task that gives the permit back once it was held too long. It ends with the permit.
    fn start_max_hold(&self, permits: Weak<Permits>, place: usize) {
        let (Some(signal), Some(max)) = (&self.signal, &self.rule.settings.max_hold) else {
            return;
        };
        let (mut watcher, timer) = (signal.watch(), Arc::clone(&max.timer));
        let until = timer.now().saturating_add(max.hold);
        let task = async move {
            let mut slept = timer.sleep_until(until);
            let is_over = poll_fn(|cx| match watcher.poll(cx) {
                Poll::Ready(_) => Poll::Ready(false),
                Poll::Pending => slept.as_mut().poll(cx).map(|()| true),
            });
            if is_over.await
                && let Some(permits) = permits.upgrade()
                && let Some(permit) = permits.of_rules.get(place)
            {
                permit.end_hold();
            }
        };
        match &self.rule.settings.spawn {
            Some(spawn) => spawn(Box::pin(task)),
            None => spawn_on_tokio(task),
        }
    }

    /// Gives the permit back before the work has ended.
    fn end_hold(&self) {
        // First, so that nothing takes it for a loss by the store.
        if let Some(signal) = &self.signal {
            signal.set(Progress::TooLong);
        }
        let Some(permit) = self.lock().take() else { return };
        drop(permit);
        self.rule.live().given_back();
        self.report(InFlightEventKind::HeldTooLong);
    }

    fn lock(&self) -> MutexGuard<'_, Option<InFlightPermit>> {
        self.permit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RulePermit {
    fn drop(&mut self) {
        if let Some(signal) = &self.signal {
            signal.set(Progress::Ended);
        }
        let Some(permit) = self.lock().take() else { return };
        let is_lost = permit.is_lost();
        drop(permit);
        self.rule.live().given_back();
        if is_lost {
            self.report_loss();
        }
    }
}

impl fmt::Debug for RulePermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RulePermit")
            .field("rule", &self.rule.name())
            .field("is_lost", &self.is_lost())
            .finish_non_exhaustive()
    }
}
