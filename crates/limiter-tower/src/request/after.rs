//! What is done around the inner service.

use std::iter;

use http::{Extensions, Response};

use super::{common::Common, decide::Ask, gate};
use crate::{
    answer::{Headers, ResponseFields, insert, is_of_layer, watch},
    decisions::{Decided, Decisions, PolicyDecision},
    head::ResponseHead,
    rule::Rule,
    settle::Charge,
};

/// What is to be done with an admitted request and its response.
#[derive(Default)]
#[expect(missing_debug_implementations, reason = "users can't name it")]
pub struct After {
    fields: Option<ResponseFields>,
    /// For handlers and outer layers, if they see them, and for the fields after a settlement.
    decisions: Option<Decisions>,
    shows_decisions: bool,
    /// In a box, because most layers have nothing but fields, and this is moved with each request.
    settling: Option<Box<Settling>>,
}

/// What may be settled or refunded.
struct Settling {
    charge: Charge,
    /// Whether handlers get the charge.
    is_chargeable: bool,
    /// Whether the response matters to a rule.
    settles: bool,
    headers: Headers,
}

impl After {
    /// Returns what the configuration demands after these rules have admitted a request.
    pub(super) fn new(config: &Common<Rule>, asks: Vec<Ask<'_>>) -> Self {
        let Common { is_chargeable, has_decisions: shows_decisions, .. } = *config;
        let headers = config.answers.headers;
        let fields = headers.fields(asks.iter().filter_map(Ask::reported), iter::empty());
        // After a delay, the inner service may fail to become ready.
        let has_waited = asks.iter().any(|ask| ask.waited.is_some());
        let settles = asks.iter().any(|ask| ask.rule.settings.settles());
        let has_charge = is_chargeable || has_waited || settles;
        let decisions =
            (shows_decisions || has_charge).then(|| asks.iter().filter_map(Ask::decided).collect());
        let settling = has_charge.then(|| {
            let keeps_charges = is_chargeable || has_waited;
            let charges = asks.into_iter().filter_map(|ask| ask.charged(keeps_charges));
            let charge = Charge::new(charges.collect());
            Box::new(Settling { charge, is_chargeable, settles, headers })
        });
        Self { fields, decisions, shows_decisions, settling }
    }

    /// Returns the same for an admission on the fast path, with copies of plans and decisions only if handlers read them.
    pub(super) fn plain<'d>(
        config: &Common<Rule>,
        decided: impl Iterator<Item = Decided<'d>> + Clone,
    ) -> Self {
        let shows_decisions = config.has_decisions;
        let reported = decided.clone().filter_map(Decided::reported);
        let fields = config.answers.headers.fields(reported, iter::empty());
        let decisions = shows_decisions.then(|| decided.map(PolicyDecision::of).collect());
        Self { fields, decisions, shows_decisions, settling: None }
    }

    /// Settles the charge, and adds what clients and outer layers may read.
    pub(super) fn leave<R>(&mut self, response: &mut Response<R>) {
        let is_of_layer = is_of_layer(response.extensions());
        // The refusal of an inner layer says nothing of what the request costs.
        if let (Some(settling), Some(decisions), false) =
            (&self.settling, &mut self.decisions, is_of_layer)
        {
            let mut is_settled = false;
            settling.charge.settle(ResponseHead::from(&*response), |rule, kept| {
                decisions.settle(rule, kept);
                is_settled = true;
            });
            if is_settled {
                self.fields = settling.headers.fields(decisions.reported(), iter::empty());
            }
        }
        if let Some(decisions) = self.decisions.take().filter(|_| self.shows_decisions) {
            insert(decisions, response.extensions_mut());
        }
        if let Some(fields) = self.fields.take() {
            fields.append_to(response.headers_mut(), is_of_layer);
        }
    }
}

impl gate::After for After {
    fn enter(&mut self, extensions: &mut Extensions) {
        let settles = self.settling.as_ref().is_some_and(|it| it.settles);
        if settles || self.fields.as_ref().is_some_and(ResponseFields::overwrites) {
            watch(extensions);
        }
        if let Some(decisions) = self.decisions.as_ref().filter(|_| self.shows_decisions) {
            insert(Decisions::clone(decisions), extensions);
        }
        if let Some(Settling { charge, is_chargeable: true, .. }) = self.settling.as_deref_mut() {
            charge.set_outer(extensions.get());
            extensions.insert(charge.clone());
        }
    }

    fn undo(&self) {
        if let Some(settling) = &self.settling {
            settling.charge.refund();
        }
    }
}
