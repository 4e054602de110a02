//! What is done around the inner service.

use std::iter;

use http::{Extensions, Response};
use limiter_core::{Cost, Decision, Key};

use crate::{
    config::Config,
    decide::Ask,
    decisions::{Decisions, InFlightDecision, Reported, is_public},
    head::ResponseHead,
    plan::Plan,
    respond::{Headers, ResponseFields, insert},
    rule::Rule,
    settle::Charge,
};

/// What is to be done with an admitted request and its response. In a box, because it is larger than the rest.
pub(crate) struct After {
    fields: Option<ResponseFields>,
    /// In a box of its own, because most layers have nothing but fields.
    rest: Option<Box<Rest>>,
}

struct Rest {
    /// For handlers and outer layers, and for the fields after a settlement.
    decisions: Decisions,
    /// Whether handlers and outer layers see the decisions.
    shows_decisions: bool,
    charge: Charge,
    /// Whether handlers get the charge.
    is_chargeable: bool,
    headers: Headers,
}

impl After {
    /// Returns what the configuration demands after these rules have admitted a request.
    pub(crate) fn new(
        config: &Config,
        asks: Vec<Ask<'_>>,
        in_flight: Vec<InFlightDecision>,
    ) -> Option<Box<Self>> {
        let reported = asks.iter().filter_map(Ask::reported);
        let fields = config.answers.headers.fields(reported, in_flight.iter());
        // After a delay, the inner service may fail to become ready.
        let has_waited = asks.iter().any(|ask| ask.waited.is_some());
        let settles = asks.iter().any(|ask| ask.rule.settings.settles());
        let needs_rest = config.has_decisions || config.is_chargeable || has_waited || settles;
        let rest = needs_rest.then(|| {
            let decisions: Decisions = asks.iter().filter_map(Ask::decided).collect();
            let decisions = decisions.with_in_flight(in_flight);
            let keeps_charges = config.is_chargeable || has_waited;
            let charges = asks.into_iter().filter_map(|ask| ask.charged(keeps_charges));
            Box::new(Rest {
                decisions,
                shows_decisions: config.has_decisions,
                charge: Charge::new(charges.collect()),
                is_chargeable: config.is_chargeable,
                headers: config.answers.headers,
            })
        });
        (fields.is_some() || rest.is_some()).then(|| Box::new(Self { fields, rest }))
    }

    /// Returns the same for an admission by the only rule, without a copy of plan and decision unless a handler can
    /// read them.
    pub(crate) fn plain(
        config: &Config,
        rule: &Rule,
        plan: &Plan,
        decision: &Decision,
        cost: Cost,
        key: &Key<'_>,
    ) -> Option<Box<Self>> {
        if config.has_decisions {
            let mut ask = Ask::new(rule, plan.clone(), key.clone(), cost);
            ask.answer = Some(Ok(*decision));
            return Self::new(config, vec![ask], Vec::new());
        }
        let is_public = is_public(rule.settings.disclosure, !rule.enforces(key), decision);
        let reported = is_public.then_some(Reported { plan, decision, cost });
        let fields = config.answers.headers.fields(reported.into_iter(), iter::empty())?;
        Some(Box::new(Self { fields: Some(fields), rest: None }))
    }

    /// Adds to the request's extensions what the handler may read.
    pub(crate) fn enter(&mut self, extensions: &mut Extensions) {
        let Some(rest) = &mut self.rest else { return };
        if rest.shows_decisions {
            insert(rest.decisions.clone(), extensions);
        }
        if rest.is_chargeable {
            rest.charge.set_outer(extensions.get());
            extensions.insert(rest.charge.clone());
        }
    }

    /// Refunds what was charged, because the inner service has failed to become ready.
    pub(crate) fn refund(&self) {
        if let Some(rest) = &self.rest {
            rest.charge.refund();
        }
    }

    /// Settles the charge, and adds what clients and outer layers may read.
    pub(crate) fn leave<R>(mut self, response: &mut Response<R>) {
        if let Some(rest) = &mut self.rest {
            let Rest { charge, decisions, .. } = &mut **rest;
            let mut is_settled = false;
            charge.settle(ResponseHead::from(&*response), |rule, kept| {
                decisions.settle(rule, kept);
                is_settled = true;
            });
            if is_settled {
                let decisions = &rest.decisions;
                self.fields = rest.headers.fields(decisions.reported(), decisions.in_flight());
            }
        }
        if let Some(fields) = self.fields {
            fields.append_to(response.headers_mut());
        }
        if let Some(rest) = self.rest
            && rest.shows_decisions
        {
            insert(rest.decisions, response.extensions_mut());
        }
    }
}
