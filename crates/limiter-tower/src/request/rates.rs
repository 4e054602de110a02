//! The gate of a layer of rates.

use std::{fmt, marker::PhantomData, sync::Arc};

use bytes::Bytes;
use http::{Response, request::Parts};
use http_body_util::{Either, Full};

use super::{
    after::After,
    body::FromRefusal,
    common::Common,
    decide::Question,
    fast::Fast,
    gate::{Deciding, Gate, Respond, Verdict},
};
use crate::{
    key::Head,
    rule::{Rule, at_once},
};

/// All that the services of a layer share.
pub(super) struct Config {
    pub(super) common: Common<Rule>,
    fast: Option<Fast>,
    /// Whether all rules decide at the first poll.
    is_immediate: bool,
}

/// How the services of a [`RateLimitLayer`](crate::RateLimitLayer) decide.
pub struct Rates<M> {
    config: Arc<Config>,
    body: PhantomData<fn() -> M>,
}

/// Responses have the inner service's body, also those to refused requests: see [`FromRefusal`].
#[derive(Debug)]
pub struct SameBody;

/// Responses have the inner service's body, or that of a refusal.
#[derive(Debug)]
pub struct AnyBody;

impl<M> Rates<M> {
    pub(super) fn new(common: &Common<Rule>) -> Self {
        let is_immediate = common.rules.iter().all(Rule::is_immediate);
        let config = Config { common: common.clone(), fast: Fast::of(common), is_immediate };
        Self { config: Arc::new(config), body: PhantomData }
    }
}

impl<M> Clone for Rates<M> {
    fn clone(&self) -> Self {
        Self { config: Arc::clone(&self.config), body: PhantomData }
    }
}

impl<M> fmt::Debug for Rates<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.config.common.fmt_as("Rates", f)
    }
}

impl<M> Gate for Rates<M> {
    type After = After;

    #[inline]
    fn decide_now(&self, head: Head<'_>) -> Option<Verdict<After>> {
        let config = &self.config;
        match config.fast.as_ref().and_then(|fast| fast.decide(&config.common, head)) {
            None if config.is_immediate => at_once(config.decide(head)),
            decided => decided,
        }
    }

    fn decide(&self, parts: Parts) -> Deciding<After> {
        let config = Arc::clone(&self.config);
        Box::pin(async move {
            let verdict = config.decide(Head::from(&parts)).await;
            (parts, verdict)
        })
    }
}

impl<R: FromRefusal> Respond<R> for Rates<SameBody> {
    type Body = R;

    #[inline]
    fn leave(after: &mut After, mut response: Response<R>) -> Response<R> {
        after.leave(&mut response);
        response
    }

    fn answer(response: Response<Bytes>) -> Response<R> {
        response.map(R::from_refusal)
    }
}

impl<R> Respond<R> for Rates<AnyBody> {
    type Body = Either<R, Full<Bytes>>;

    fn leave(after: &mut After, mut response: Response<R>) -> Response<Self::Body> {
        after.leave(&mut response);
        response.map(Either::Left)
    }

    fn answer(response: Response<Bytes>) -> Response<Self::Body> {
        response.map(|bytes| Either::Right(Full::new(bytes)))
    }
}

impl Config {
    /// Returns whether charges may be refunded after all rules have admitted a request: by a handler, or by its response.
    fn may_refund(&self) -> bool {
        let may_refund = |rule: &Rule| rule.settings.settles() || rule.settings.wait.is_some();
        self.common.is_chargeable || self.common.rules.iter().any(may_refund)
    }

    /// Decides on a request.
    async fn decide(&self, head: Head<'_>) -> Verdict<After> {
        if self.common.passes(head) {
            return Verdict::Forward(After::new(&self.common, Vec::new()));
        }
        let question = Question::of(&self.common.rules, head, self.may_refund());
        let decided = match question {
            Ok(question) => question.decide(head).await,
            Err(refused) => Err(refused),
        };
        match decided {
            Ok(asks) => Verdict::Forward(After::new(&self.common, asks)),
            Err(refused) => Verdict::Answer(self.common.refuse(&refused, head)),
        }
    }
}
