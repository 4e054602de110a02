//! The permits of one request.

use std::{
    fmt,
    future::{Future, poll_fn},
    mem,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Poll, Waker},
};

use limiter_core::{InFlightPermit, Key};

use super::{
    InFlightRule,
    age::{Aged, Place},
};
use crate::{
    key::Head,
    observe::{Event, Outcome, log},
    rule::Flag,
};

/// The permit of one rule. It is given back when this is dropped.
pub(crate) struct RulePermit {
    pub(super) rule: InFlightRule,
    /// For observers. `None` if there are none.
    key: Option<Key<'static>>,
    pub(super) is_shadow: bool,
    held: Mutex<Held>,
    /// Its place among the rule's, if permits have a longest age.
    place: Option<Place>,
    loss_reported: Flag,
}

struct Held {
    /// `None` once it was given back because it was held too long.
    permit: Option<InFlightPermit>,
    /// The tasks that wait for that.
    wakers: Vec<Waker>,
}

/// The permits of one request. They are given back when the last reference is dropped: that of the response's future or
/// body, or of what a handler holds.
#[derive(Debug)]
pub(crate) struct Permits {
    pub(super) of_rules: Box<[Arc<RulePermit>]>,
}

impl Permits {
    /// Returns the permits of a request, `None` if there are none.
    pub(super) fn new(of_rules: Vec<Arc<RulePermit>>) -> Option<Arc<Self>> {
        let of_rules: Box<[_]> = of_rules.into();
        (!of_rules.is_empty()).then(|| Arc::new(Self { of_rules }))
    }

    /// Reports that the response has switched protocols and that nothing holds the permits.
    pub(super) fn report_upgrade(&self) {
        for permit in &self.of_rules {
            if permit.rule.settings.shared.upgrade_logged.turn_on() {
                log::upgrade_without_hold(permit.rule.name());
            }
            permit.report(Outcome::UpgradeNotHeld);
        }
    }
}

impl RulePermit {
    pub(super) fn new(
        rule: &InFlightRule,
        key: &Key<'_>,
        is_shadow: bool,
        permit: InFlightPermit,
    ) -> Arc<Self> {
        rule.count_held(true);
        let is_observed = rule.spec().observer.is_some();
        Arc::new_cyclic(|this| Self {
            rule: rule.clone(),
            key: is_observed.then(|| Key::from(key).into_owned()),
            is_shadow,
            held: Mutex::new(Held { permit: Some(permit), wakers: Vec::new() }),
            place: rule.settings.ages.as_ref().map(|ages| ages.add(key, Weak::<Self>::clone(this))),
            loss_reported: Flag::default(),
        })
    }

    /// Returns whether the permit does not count any more, although the work has not ended.
    pub(super) fn is_lost(&self) -> bool {
        self.lock().permit.as_ref().is_none_or(InFlightPermit::is_lost)
    }

    /// Returns whether the permit can be lost at all.
    pub(super) fn can_be_lost(&self) -> bool {
        self.place.is_some() || self.lock().permit.as_ref().is_none_or(InFlightPermit::can_be_lost)
    }

    /// Returns a future that is ready once the permit does not count any more. It does not hold the permit.
    pub(super) fn lost(self: &Arc<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut by_store = self.lock().permit.as_ref().map(|permit| Box::pin(permit.lost()));
        let this = Arc::downgrade(self);
        Box::pin(poll_fn(move |cx| {
            let Some(by_store) = &mut by_store else { return Poll::Ready(()) };
            let is_over = |this: Arc<Self>| this.was_held_too_long(cx.waker());
            if this.upgrade().is_some_and(is_over) {
                Poll::Ready(())
            } else {
                by_store.as_mut().poll(cx)
            }
        }))
    }

    /// Returns whether the permit was given back because it was held too long. If not, the waker is called when it is.
    fn was_held_too_long(&self, waker: &Waker) -> bool {
        if self.place.is_none() {
            return false;
        }
        let waker = waker.clone();
        let mut held = self.lock();
        if held.permit.is_some() && !held.wakers.iter().any(|known| known.will_wake(&waker)) {
            held.wakers.push(waker);
        }
        held.permit.is_none()
    }

    /// Reports that the permit is lost, once. That it was held too long is reported when that happens.
    pub(super) fn report_loss(&self) {
        if self.loss_reported.turn_on() {
            log::permit_lost(self.rule.name(), Outcome::PermitLost.name());
            self.report(Outcome::PermitLost);
        }
    }

    fn report(&self, outcome: Outcome) {
        let event = self.rule.event(outcome, Head::empty());
        self.rule.spec().report(&Event { key: self.key.as_ref(), ..event });
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Aged for RulePermit {
    fn end_hold(&self) {
        let Held { permit, wakers } =
            mem::replace(&mut *self.lock(), Held { permit: None, wakers: Vec::new() });
        let Some(permit) = permit else { return };
        // Nothing takes it for a loss by the store.
        self.loss_reported.set(true);
        drop(permit);
        wakers.into_iter().for_each(Waker::wake);
        self.rule.count_held(false);
        log::permit_lost(self.rule.name(), Outcome::HeldTooLong.name());
        self.report(Outcome::HeldTooLong);
    }
}

impl Drop for RulePermit {
    fn drop(&mut self) {
        if let (Some(ages), Some(place)) = (&self.rule.settings.ages, &self.place) {
            ages.remove(place);
        }
        let Some(permit) = self.lock().permit.take() else { return };
        let is_lost = permit.is_lost();
        drop(permit);
        self.rule.count_held(false);
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
