//! What all clones of a rule share, and a program changes while requests are served.

use std::{
    borrow::Cow,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwap;

use super::Mode;
use crate::{observe::watch::StoreWatch, plan::Plan};

/// What all clones of a rule share.
pub(crate) struct Live {
    /// The name that its policy had at first.
    pub(crate) name: Arc<str>,
    pub(crate) plan: LivePlan,
    pub(crate) mode: LiveMode,
    pub(crate) store: StoreWatch,
    /// Whether a fault of the server that leaves requests without a key was logged.
    pub(crate) missing_key_logged: Flag,
    /// Whether a configuration error of the limiter was logged.
    pub(crate) misconfiguration_logged: Flag,
    /// How many refunds, later charges and strikes could not be sent.
    pub(crate) unsent: AtomicU64,
}

impl Live {
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            name: plan.policy().name().into(),
            plan: LivePlan::new(plan),
            mode: LiveMode::default(),
            store: StoreWatch::default(),
            missing_key_logged: Flag::default(),
            misconfiguration_logged: Flag::default(),
            unsent: AtomicU64::new(0),
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

/// The mode of a rule.
pub(crate) struct LiveMode(AtomicU8);

impl LiveMode {
    pub(crate) const fn new(mode: Mode) -> Self {
        Self(AtomicU8::new(mode.percent()))
    }

    pub(crate) fn get(&self) -> Mode {
        Mode::of_percent(self.0.load(Ordering::Relaxed))
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.0.store(mode.percent(), Ordering::Relaxed);
    }
}

impl Default for LiveMode {
    fn default() -> Self {
        Self::new(Mode::ENFORCE)
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
