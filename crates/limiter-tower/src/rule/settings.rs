//! What a rule is made of.

use std::sync::{Arc, Weak, atomic::AtomicU64};

use arc_swap::ArcSwap;
use limiter_core::{Blocks, Cost};

use super::{
    choices::{Keep, Strike},
    fast::{Check, CostFn},
    live::LivePlan,
    spec::Spec,
};
use crate::{head::ResponseHead, key::Head, plan::Plan, wait::Wait};

pub(super) type PlanFn = Arc<dyn Fn(Head<'_>) -> Option<Plan> + Send + Sync>;
pub(super) type SettleFn = Arc<dyn Fn(ResponseHead<'_>) -> Keep + Send + Sync>;
pub(super) type StrikeFn = Arc<dyn Fn(ResponseHead<'_>) -> Strike + Send + Sync>;
pub(super) type ChargeFn = Arc<dyn Fn(ResponseHead<'_>) -> Option<Cost> + Send + Sync>;

/// What is fixed before the rule is used. Changing a clone's does not change the original's.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(super) spec: Spec,
    /// What all clones share beside that.
    pub(super) shared: Arc<Shared>,
    /// The limiter and the key as types of their own.
    pub(super) typed: Arc<dyn Check>,
    pub(super) cost: Option<CostFn>,
    pub(super) select: Select,
    pub(crate) wait: Option<Wait>,
    pub(crate) settle: Option<SettleFn>,
    pub(crate) charge_after: Option<ChargeFn>,
    pub(crate) block: Option<Blocking>,
}

/// What all clones of a rule share, beside what both kinds of rules have.
pub(crate) struct Shared {
    pub(super) plan: LivePlan,
    /// How many refunds, later charges and strikes could not be sent.
    pub(crate) unsent: AtomicU64,
    /// The other rules in its layers.
    pub(super) peers: ArcSwap<Vec<Peer>>,
}

/// The names of another rule in a layer.
#[derive(Clone)]
pub(crate) struct Peer {
    /// Those that it always has.
    pub(super) fixed: Vec<String>,
    /// With the policy that is enforced now.
    pub(super) shared: Weak<Shared>,
}

impl Shared {
    pub(super) fn new(plan: Plan) -> Self {
        let (plan, unsent) = (LivePlan::new(plan), AtomicU64::new(0));
        Self { plan, unsent, peers: ArcSwap::default() }
    }
}

/// When keys are blocked.
#[derive(Clone)]
pub(crate) struct Blocking {
    pub(crate) blocks: Blocks,
    /// Which responses are strikes. `None` if refusals are.
    pub(crate) strikes: Option<StrikeFn>,
}

/// Which plan applies to a request.
#[derive(Clone)]
pub(super) enum Select {
    /// The rule's own.
    Own,
    Fixed(Plan),
    /// `None` is the rule's own.
    By(PlanFn),
}

impl Settings {
    /// Returns whether the limiter's decision is all that there is to the rule.
    pub(crate) fn is_plain(&self) -> bool {
        self.wait.is_none() && self.block.is_none() && !self.settles()
    }

    /// Returns whether a response may be free.
    pub(crate) const fn gives_back(&self) -> bool {
        self.settle.is_some() || self.charge_after.is_some()
    }

    /// Returns whether the response matters.
    pub(crate) fn settles(&self) -> bool {
        self.gives_back() || self.block.as_ref().is_some_and(|block| block.strikes.is_some())
    }
}
