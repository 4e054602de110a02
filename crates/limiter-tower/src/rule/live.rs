//! What all clones of a rule share, of either kind.

use std::{
    borrow::Cow,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
};

use arc_swap::ArcSwap;

use super::Mode;
use crate::{observe::watch::StoreWatch, plan::Plan};

/// What all clones of a rule share, and a program changes while requests are served.
pub(crate) struct Live {
    /// The name that its policy had at first.
    pub(crate) name: Arc<str>,
    mode: AtomicU8,
    pub(crate) store: StoreWatch,
    /// Whether a fault of the server that leaves requests without a key was logged.
    pub(crate) missing_key_logged: Flag,
    /// Whether a configuration error of the limiter was logged.
    pub(crate) misconfiguration_logged: Flag,
    /// Whether the mode, the plan, or a layer's switch was ever set. Until then the rule may have a fast path.
    pub(crate) was_changed: Flag,
    #[cfg(feature = "metrics")]
    pub(crate) metrics: crate::observe::metrics::Metrics,
}

impl Live {
    pub(crate) fn new(name: &str) -> Self {
        let name = Arc::from(name);
        Self {
            #[cfg(feature = "metrics")]
            metrics: crate::observe::metrics::Metrics::new(&name),
            name,
            mode: AtomicU8::new(Mode::ENFORCE.percent()),
            store: StoreWatch::default(),
            missing_key_logged: Flag::default(),
            misconfiguration_logged: Flag::default(),
            was_changed: Flag::default(),
        }
    }

    pub(crate) fn mode(&self) -> Mode {
        Mode::of_percent(self.mode.load(Ordering::Relaxed))
    }

    pub(crate) fn set_mode(&self, mode: Mode) {
        if mode != self.mode() {
            self.mode.store(mode.percent(), Ordering::Relaxed);
            self.was_changed.set(true);
        }
    }
}

/// The plan of a rule.
pub(crate) struct LivePlan {
    configured: Plan,
    /// The one that was set since, if any: most layers never swap, and are spared 12 ns a request
    /// (`cargo xtask bench layer`).
    swapped: OnceLock<ArcSwap<Plan>>,
}

impl LivePlan {
    pub(crate) const fn new(plan: Plan) -> Self {
        Self { configured: plan, swapped: OnceLock::new() }
    }

    /// Returns the plan that was configured.
    pub(crate) const fn configured(&self) -> &Plan {
        &self.configured
    }

    /// Returns the plan, which is not copied as long as none was set.
    pub(crate) fn get(&self) -> Cow<'_, Plan> {
        match self.swapped.get() {
            Some(swapped) => Cow::Owned(Plan::clone(&swapped.load())),
            None => Cow::Borrowed(&self.configured),
        }
    }

    pub(crate) fn set(&self, plan: Plan) {
        let plan = Arc::new(plan);
        self.swapped.get_or_init(|| ArcSwap::new(Arc::clone(&plan))).store(plan);
    }
}

/// Something that is on or off.
#[derive(Debug, Default)]
pub(crate) struct Flag(AtomicBool);

impl Flag {
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, on: bool) {
        self.0.store(on, Ordering::Relaxed);
    }

    /// Turns it on, and returns whether it was off. Writes only then, because all requests share it.
    pub(crate) fn turn_on(&self) -> bool {
        !self.get() && !self.0.swap(true, Ordering::Relaxed)
    }
}
