//! What layers of both kinds have: a list of rules, and how they answer.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use http::Response;

use crate::{
    answer::{Answers, Refused, insert},
    decisions::Decided,
    key::Head,
    observe::Outcome,
    rule::{Flag, LayerRule, ObserveFn},
};

pub(crate) type SkipFn = Arc<dyn Fn(Head<'_>) -> bool + Send + Sync>;

/// What a layer and its services share.
#[derive(Clone)]
pub(crate) struct Common<R> {
    /// In the order in which they are asked.
    pub(crate) rules: Box<[R]>,
    pub(crate) skip: Option<SkipFn>,
    pub(crate) answers: Answers,
    /// Whether the decisions are inserted into the extensions.
    pub(crate) has_decisions: bool,
    /// Whether handlers get a `Charge` of rates.
    pub(crate) is_chargeable: bool,
    /// Shared with all clones.
    pub(crate) is_off: Arc<Flag>,
}

impl<R: LayerRule> Common<R> {
    pub(crate) fn new(rules: Box<[R]>) -> Self {
        Self {
            rules,
            skip: None,
            answers: Answers::new(),
            has_decisions: false,
            is_chargeable: false,
            is_off: Arc::default(),
        }
    }

    /// Returns whether a request passes without being counted. Reports it.
    pub(crate) fn passes(&self, head: Head<'_>) -> bool {
        let passes = self.is_off.get() || self.skip.as_ref().is_some_and(|skip| skip(head));
        if passes {
            self.rules.iter().for_each(|rule| rule.report_not_asked(Outcome::Bypassed, head));
        }
        passes
    }

    /// Returns the response to a request that is not admitted.
    pub(crate) fn refuse(&self, refused: &Refused, head: Head<'_>) -> Response<Bytes> {
        let mut response = self.answers.respond(head, refused);
        if self.has_decisions
            && let Some(decisions) = refused.all_decisions()
        {
            insert(decisions.clone(), response.extensions_mut());
        }
        response
    }

    /// Returns the response to a request that an enforced rule refuses, whose key is not blocked.
    pub(crate) fn refuse_by(&self, refusing: Decided<'_>, head: Head<'_>) -> Response<Bytes> {
        match self.has_decisions {
            true => self.refuse(&Refused::by(refusing), head),
            false => self.answers.refuse_by(refusing, head),
        }
    }

    /// Sets the observer of all rules.
    pub(crate) fn observe(&mut self, observer: &ObserveFn) {
        for rule in &mut self.rules {
            *rule = rule.clone().observed_by(Arc::clone(observer));
        }
    }

    /// Switches the layer off or on, in all clones.
    pub(crate) fn set_off(&self, is_off: bool) {
        self.rules.iter().for_each(|rule| rule.spec().live.was_changed.set(true));
        self.is_off.set(is_off);
    }

    pub(crate) fn fmt_as(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // All fields, so that the compiler asks of a new one whether it is printed.
        let Self { rules, skip: _, answers, has_decisions: _, is_chargeable: _, is_off } = self;
        f.debug_struct(name)
            .field("rules", rules)
            .field("answers", answers)
            .field("is_off", is_off)
            .finish_non_exhaustive()
    }
}

/// Returns what each rule that counts a request is asked, by `of`, and reports the others.
///
/// # Errors
///
/// [`Refused`] if a rule can't be asked. Nothing is reported of the others then.
pub(crate) fn asks<'k, R: LayerRule, A>(
    rules: &'k [R],
    head: Head<'k>,
    of: impl Fn(&'k R, Head<'k>) -> Result<Option<A>, Refused>,
) -> Result<Vec<A>, Refused> {
    let mut asks = Vec::with_capacity(rules.len());
    let mut skipped = Vec::new();
    for rule in rules {
        match of(rule, head)? {
            Some(ask) => asks.push(ask),
            None => skipped.push(rule),
        }
    }
    skipped.iter().for_each(|rule| rule.report_not_asked(Outcome::Bypassed, head));
    Ok(asks)
}

/// The constructors that layers of both kinds have, by `try_all`.
macro_rules! layer_constructors {
    ($rule:ident, $limiter:ident) => {
        /// Returns a layer with one rule, which counts requests under `key`.
        ///
        /// # Panics
        ///
        /// If [`try_all`](Self::try_all) returns an error, with its text.
        #[track_caller]
        pub fn new(
            limiter: impl limiter_core::$limiter + 'static,
            key: impl crate::key::KeyExtractor + 'static,
        ) -> Self {
            Self::all([$rule::new(limiter, key)])
        }

        /// Returns a layer with several rules.
        ///
        /// # Panics
        ///
        /// If [`try_all`](Self::try_all) returns an error, with its text.
        #[must_use]
        #[track_caller]
        // A program that is set up wrongly must not start.
        pub fn all(rules: impl IntoIterator<Item = $rule>) -> Self {
            // No closure: a panic in it would name its own line.
            match Self::try_all(rules) {
                Ok(layer) => layer,
                Err(error) => panic!("{error}"),
            }
        }

        /// Returns a layer with one rule, as [`new`](Self::new).
        ///
        /// # Errors
        ///
        /// As [`try_all`](Self::try_all).
        pub fn try_new(
            limiter: impl limiter_core::$limiter + 'static,
            key: impl crate::key::KeyExtractor + 'static,
        ) -> Result<Self, limiter_core::Error> {
            Self::try_all([$rule::new(limiter, key)])
        }
    };
}
pub(crate) use layer_constructors;

/// The methods that layers of both kinds have.
macro_rules! layer_methods {
    ($rule:ty) => {
        /// Forwards requests for which `skip` returns true, without counting them.
        ///
        /// ```
        /// # use limiter_tower::{ClientIp, MemoryLimiter, Policy, Quota, RateLimitLayer};
        /// # let limiter = MemoryLimiter::new(Policy::gcra("api", Quota::per_minute(100)));
        /// let layer = RateLimitLayer::new(limiter, ClientIp::peer()).skip(|head| head.path() == "/health");
        /// ```
        #[must_use]
        pub fn skip(
            self,
            skip: impl Fn(crate::key::Head<'_>) -> bool + Send + Sync + 'static,
        ) -> Self {
            self.with(|common| common.skip = Some(::std::sync::Arc::new(skip)))
        }

        /// Sets how the layer answers: the header fields, the response to requests that are not admitted, and whether
        /// gRPC clients receive a gRPC status.
        #[must_use]
        pub fn answers(self, answers: crate::Answers) -> Self {
            self.with(|common| common.answers = answers)
        }

        /// Inserts [`Decisions`](crate::observe::Decisions) into the extensions of requests and responses, which costs a few
        /// allocations a request.
        #[must_use]
        pub fn decisions(self) -> Self {
            self.with(|common| common.has_decisions = true)
        }

        /// Calls `observer` with what each rule did with each request, in place of the rules' own observers. It is called
        /// on the request's path, so it must neither block nor panic.
        #[must_use]
        pub fn observe(
            self,
            observer: impl Fn(&crate::observe::Event<'_>) + Send + Sync + 'static,
        ) -> Self {
            let observer: crate::rule::ObserveFn = ::std::sync::Arc::new(observer);
            self.with(|common| common.observe(&observer))
        }

        /// Returns the rules, in the order in which they are asked.
        #[must_use]
        pub fn rules(&self) -> &[$rule] {
            &self.common.rules
        }

        /// Forwards all requests from now on, without counting them, in all clones. Requests that wait already are not
        /// released.
        pub fn switch_off(&self) {
            self.common.set_off(true);
        }

        /// Limits requests again after [`switch_off`](Self::switch_off).
        pub fn switch_on(&self) {
            self.common.set_off(false);
        }

        /// Returns whether requests are limited.
        #[must_use]
        pub fn is_on(&self) -> bool {
            !self.common.is_off.get()
        }

        fn with(mut self, change: impl FnOnce(&mut Common<$rule>)) -> Self {
            change(::std::sync::Arc::make_mut(&mut self.common));
            self
        }
    };
}
pub(crate) use layer_methods;
