//! What is done around the inner service.

use std::{iter, task::Context};

use bytes::Bytes;
use http::{Extensions, Response};
use limiter_core::{Cost, Decision};

use super::{config::Config, decide::Ask, gate};
use crate::{
    answer::{Headers, ResponseFields, insert, is_of_layer, watch},
    decisions::{Decisions, PolicyDecision, Reported, is_public},
    head::ResponseHead,
    plan::Plan,
    rule::Rule,
    settle::Charge,
};

/// What is to be done with an admitted request and its response.
#[derive(Default)]
#[expect(missing_debug_implementations, reason = "users can't name it")]
pub struct After {
    fields: Option<ResponseFields>,
    /// In a box, because most layers have nothing but fields.
    rest: Option<Box<Rest>>,
}

struct Rest {
    /// For handlers and outer layers, and for the fields after a settlement.
    decisions: Decisions,
    /// Whether handlers and outer layers see the decisions.
    shows_decisions: bool,
    /// `None` if nothing was charged that may be settled or refunded.
    charge: Option<Charge>,
    /// Whether handlers get the charge.
    is_chargeable: bool,
    /// Whether the response matters to a rule.
    settles: bool,
    headers: Headers,
}

impl After {
    /// Returns what the configuration demands after these rules have admitted a request.
    pub(super) fn new(config: &Config, asks: Vec<Ask<'_>>) -> Self {
        let reported = asks.iter().filter_map(Ask::reported);
        let fields = config.common.answers.headers.fields(reported, iter::empty());
        // After a delay, the inner service may fail to become ready.
        let has_waited = asks.iter().any(|ask| ask.waited.is_some());
        let settles = asks.iter().any(|ask| ask.rule.settings.settles());
        let is_needed =
            config.common.has_decisions || config.is_chargeable || has_waited || settles;
        let rest = is_needed.then(|| {
            let keeps_charges = config.is_chargeable || has_waited;
            let decisions = asks.iter().filter_map(Ask::decided).collect();
            let charges = asks.into_iter().filter_map(|ask| ask.charged(keeps_charges));
            Box::new(Rest {
                decisions,
                shows_decisions: config.common.has_decisions,
                charge: Some(Charge::new(charges.collect())),
                is_chargeable: config.is_chargeable,
                settles,
                headers: config.common.answers.headers,
            })
        });
        Self { fields, rest }
    }

    /// Returns the same for an admission by the only rule, with copies of plan and decision only if handlers read them.
    pub(super) fn plain(
        config: &Config,
        rule: &Rule,
        plan: &Plan,
        decision: &Decision,
        cost: Cost,
    ) -> Self {
        let headers = config.common.answers.headers;
        let reported = Reported { plan, decision, cost, charged: cost.get() };
        let is_public = is_public(rule.spec().disclosure, false, decision);
        let fields = if is_public { headers.fields_of(reported) } else { None };
        let rest = config.common.has_decisions.then(|| {
            let decided = PolicyDecision::of(rule, plan, decision, cost);
            Box::new(Rest {
                decisions: iter::once(decided).collect(),
                shows_decisions: true,
                charge: None,
                is_chargeable: false,
                settles: false,
                headers,
            })
        });
        Self { fields, rest }
    }

    /// Settles the charge, and adds what clients and outer layers may read.
    pub(super) fn leave<R>(mut self, response: &mut Response<R>) {
        let is_of_layer = is_of_layer(response.extensions());
        if let Some(mut rest) = self.rest {
            // The refusal of an inner layer says nothing of what the request costs.
            if !is_of_layer && rest.settle(ResponseHead::from(&*response)) {
                self.fields = rest.headers.fields(rest.decisions.reported(), iter::empty());
            }
            if rest.shows_decisions {
                insert(rest.decisions, response.extensions_mut());
            }
        }
        if let Some(fields) = self.fields {
            fields.append_to(response.headers_mut(), is_of_layer);
        }
    }
}

impl gate::After for After {
    fn enter(&mut self, extensions: &mut Extensions) {
        let settles = self.rest.as_ref().is_some_and(|rest| rest.settles);
        if settles || self.fields.as_ref().is_some_and(ResponseFields::overwrites) {
            watch(extensions);
        }
        let Some(rest) = &mut self.rest else { return };
        if rest.shows_decisions {
            insert(rest.decisions.clone(), extensions);
        }
        if let Some(charge) = rest.charge.as_mut().filter(|_| rest.is_chargeable) {
            charge.set_outer(extensions.get());
            extensions.insert(charge.clone());
        }
    }

    fn undo(&self) {
        if let Some(charge) = self.rest.as_ref().and_then(|rest| rest.charge.as_ref()) {
            charge.refund();
        }
    }

    fn ended(&mut self, _: &mut Context<'_>) -> Option<Response<Bytes>> {
        None
    }
}

impl Rest {
    /// Settles the charge. Returns whether that has changed a decision.
    fn settle(&mut self, response: ResponseHead<'_>) -> bool {
        let Self { charge, decisions, .. } = self;
        let mut is_settled = false;
        let Some(charge) = charge else { return false };
        charge.settle(response, |rule, kept| {
            decisions.settle(rule, kept);
            is_settled = true;
        });
        is_settled
    }
}
