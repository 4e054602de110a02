//! What is done around the inner service.

use std::{iter, sync::Arc, task::Context};

use bytes::Bytes;
use http::{Extensions, Response};
use http_body::Body;
use limiter_core::{Cost, Decision, Key};

use crate::{
    config::Config,
    decide::Ask,
    decisions::{Decisions, Reported, is_public},
    entering::Entered,
    head::{Head, ResponseHead},
    holding::Holding,
    in_flight::Hold,
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
    /// If the layer has limits on requests in flight.
    holding: Option<Box<Holding>>,
}

impl After {
    /// Returns what the configuration demands after these rules have admitted a request.
    pub(crate) fn new(
        config: &Arc<Config>,
        entered: Entered<'_>,
        head: Head<'_>,
    ) -> Option<Box<Self>> {
        let Entered { rates, permits, in_flight } = entered;
        let reported = rates.iter().filter_map(Ask::reported);
        let fields = config.answers.headers.fields(reported, in_flight.iter());
        let has_in_flight = !config.in_flight.is_empty();
        // After a delay, the inner service may fail to become ready.
        let has_waited = rates.iter().any(|ask| ask.waited.is_some());
        let settles = rates.iter().any(|ask| ask.rule.settings.settles());
        let shares = config.has_decisions || config.is_chargeable;
        let rest = (shares || has_waited || settles || has_in_flight).then(|| {
            let decisions: Decisions = rates.iter().filter_map(Ask::decided).collect();
            let keeps_charges = config.is_chargeable || has_waited;
            let charges = rates.into_iter().filter_map(|ask| ask.charged(keeps_charges));
            Box::new(Rest {
                decisions: decisions.with_in_flight(in_flight),
                shows_decisions: config.has_decisions,
                charge: Charge::new(charges.collect()),
                is_chargeable: config.is_chargeable,
                headers: config.answers.headers,
                holding: has_in_flight.then(|| Box::new(Holding::new(config, head, permits))),
            })
        });
        (fields.is_some() || rest.is_some()).then(|| Box::new(Self { fields, rest }))
    }

    /// Returns the same for an admission by the only rule, without copies of plan and decision: no handler can read them.
    pub(crate) fn plain(
        config: &Config,
        rule: &Rule,
        plan: &Plan,
        decision: &Decision,
        cost: Cost,
        key: &Key<'_>,
    ) -> Option<Box<Self>> {
        let is_public = is_public(rule.settings.disclosure, !rule.enforces(key), decision);
        let reported = is_public.then_some(Reported { plan, decision, cost, charged: cost.get() });
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
        if let Some(holding) = &rest.holding {
            holding.enter(extensions);
        }
    }

    /// Refunds what was charged, because the inner service has failed to become ready.
    pub(crate) fn refund(&self) {
        if let Some(rest) = &self.rest {
            rest.charge.refund();
        }
    }

    /// Returns the answer in place of the inner service's, if the request has lost its permit, and must have one.
    pub(crate) fn ended(&mut self, cx: &mut Context<'_>) -> Option<Response<Bytes>> {
        self.rest.as_mut()?.holding.as_mut()?.ended(cx)
    }

    /// Settles the charge, and adds what clients and outer layers may read. Returns the permits of a request in flight, for
    /// the response's body; they are given back if none follows.
    pub(crate) fn leave<R: Body>(mut self, response: &mut Response<R>) -> Option<Hold> {
        let mut hold = None;
        if let Some(mut rest) = self.rest {
            hold = rest.holding.take().and_then(|holding| holding.after_head(response));
            if rest.settle(ResponseHead::from(&*response)) {
                let decisions = &rest.decisions;
                self.fields = rest.headers.fields(decisions.reported(), decisions.in_flight());
            }
            if rest.shows_decisions {
                insert(rest.decisions, response.extensions_mut());
            }
        }
        if let Some(fields) = self.fields {
            fields.append_to(response.headers_mut());
        }
        hold
    }
}

impl Rest {
    /// Settles the charge. Returns whether that has changed a decision.
    fn settle(&mut self, response: ResponseHead<'_>) -> bool {
        let Self { charge, decisions, .. } = self;
        let mut is_settled = false;
        charge.settle(response, |rule, kept| {
            decisions.settle(rule, kept);
            is_settled = true;
        });
        is_settled
    }
}
