//! The layer: a list of limits on requests in flight, and how it answers.

use std::{collections::HashSet, fmt, sync::Arc};

use limiter_core::{Error, ErrorKind, InFlightLimiter};
use tower_layer::Layer;

use super::{InFlightRule, config::Config, gate::InFlightGate};
use crate::{
    key::{Head, KeyExtractor},
    observe::Event,
    respond::Answers,
    rule::ObserveFn,
    service::Limited,
};

/// Limits how many requests to a service are in flight at once.
///
/// A request takes a permit before the inner service is called, and gives it back when the response's body has ended or was
/// dropped. A handler that goes on after the response finds a [`RequestPermit`](super::RequestPermit) in the request's
/// extensions.
///
/// Put it inside of a [`RateLimitLayer`](crate::RateLimitLayer) that counts requests: an attempt that is refused because too
/// many are in flight is then charged, which bounds the attempts of a client that is full. Put it around a layer whose
/// charge is dear, such as tokens, so that nothing is charged for a request that has no place.
///
/// ```
/// use limiter_tower::{ClientIp, InFlight, InFlightLayer};
///
/// // Each address: three uploads at once.
/// let layer = InFlightLayer::new(InFlight::new("uploads", 3)?, ClientIp::peer());
/// # Ok::<(), limiter_core::Error>(())
/// ```
///
/// All clones, and all services that they make, share the rules.
#[derive(Clone)]
pub struct InFlightLayer {
    config: Arc<Config>,
}

impl InFlightLayer {
    /// Returns a layer with one limit, which counts requests under `key`.
    ///
    /// # Panics
    ///
    /// If [`try_all`](Self::try_all) returns an error, with its text.
    #[track_caller]
    pub fn new(limiter: impl InFlightLimiter + 'static, key: impl KeyExtractor + 'static) -> Self {
        Self::all([InFlightRule::new(limiter, key)])
    }

    /// Returns a layer with several limits: a request has a permit of each, or none.
    ///
    /// # Panics
    ///
    /// If [`try_all`](Self::try_all) returns an error, with its text.
    #[must_use]
    #[track_caller]
    #[expect(clippy::panic, reason = "a program that is set up wrongly must not start")]
    pub fn all(rules: impl IntoIterator<Item = InFlightRule>) -> Self {
        Self::try_all(rules).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns a layer with one limit, as [`new`](Self::new).
    ///
    /// # Errors
    ///
    /// As [`try_all`](Self::try_all).
    pub fn try_new(
        limiter: impl InFlightLimiter + 'static,
        key: impl KeyExtractor + 'static,
    ) -> Result<Self, Error> {
        Self::try_all([InFlightRule::new(limiter, key)])
    }

    /// Returns a layer with several limits, for those from a file.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidSetting`] if there is no limit.
    /// - [`ErrorKind::InvalidName`] if two have one name: header fields and metrics identify them by it.
    /// - [`ErrorKind::InvalidSetting`] if clients [choose](crate::key::KeySource::Chosen) a key, and no limit of the layer
    ///   with a key of the client's [own](crate::key::KeySource::Own) counts all requests and is enforced for as many keys.
    pub fn try_all(rules: impl IntoIterator<Item = InFlightRule>) -> Result<Self, Error> {
        let mut rules: Box<[_]> = rules.into_iter().collect();
        if rules.is_empty() {
            let fault = "the layer has no limits: give it at least one";
            return Err(Error::new(ErrorKind::InvalidSetting, fault));
        }
        let mut names = HashSet::new();
        for rule in &rules {
            if !names.insert(rule.name()) {
                let fault = format!("two limits are named {:?}; rename one", rule.name());
                return Err(Error::new(ErrorKind::InvalidName, fault));
            }
            rule.spec().check_bounds(rules.iter().map(InFlightRule::spec))?;
        }
        rules.sort_by_key(|rule| rule.spec().source().order());
        let config = Config {
            rules,
            skip: None,
            answers: Answers::new(),
            has_decisions: false,
            is_off: Arc::default(),
        };
        Ok(Self { config: Arc::new(config) })
    }

    /// Forwards requests for which `skip` returns true, without counting them.
    #[must_use]
    pub fn skip(self, skip: impl Fn(Head<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.with(|config| config.skip = Some(Arc::new(skip)))
    }

    /// Sets how the layer answers: the header fields, the response to requests that are not admitted, and whether gRPC
    /// clients receive a gRPC status.
    #[must_use]
    pub fn answers(self, answers: Answers) -> Self {
        self.with(|config| config.answers = answers)
    }

    /// Inserts [`Decisions`](crate::observe::Decisions) into the extensions of requests and responses.
    #[must_use]
    pub fn decisions(self) -> Self {
        self.with(|config| config.has_decisions = true)
    }

    /// Sets the [observer](InFlightRule::observe) of all rules of the layer, in place of earlier ones.
    #[must_use]
    pub fn observe(self, observer: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        let observer: ObserveFn = Arc::new(observer);
        self.with(|config| {
            for rule in &mut config.rules {
                *rule = rule.clone().observed_by(Arc::clone(&observer));
            }
        })
    }

    /// Returns the rules, in the order in which they are asked.
    #[must_use]
    pub fn rules(&self) -> &[InFlightRule] {
        &self.config.rules
    }

    /// Forwards all requests from now on, without counting them, in all clones.
    pub fn switch_off(&self) {
        self.config.is_off.set(true);
    }

    /// Limits requests again after [`switch_off`](Self::switch_off).
    pub fn switch_on(&self) {
        self.config.is_off.set(false);
    }

    /// Returns whether requests are limited.
    #[must_use]
    pub fn is_on(&self) -> bool {
        !self.config.is_off.get()
    }

    fn with(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(Arc::make_mut(&mut self.config));
        self
    }
}

impl<S> Layer<S> for InFlightLayer {
    type Service = Limited<S, InFlightGate>;

    fn layer(&self, inner: S) -> Self::Service {
        Limited::new(inner, InFlightGate::new(Arc::clone(&self.config)))
    }
}

/// As [`InFlightLayer::all`] with this rule.
impl From<InFlightRule> for InFlightLayer {
    #[track_caller]
    fn from(rule: InFlightRule) -> Self {
        Self::all([rule])
    }
}

impl fmt::Debug for InFlightLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.config.fmt(f)
    }
}
