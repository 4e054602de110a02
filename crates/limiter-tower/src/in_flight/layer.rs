//! The layer: a list of limits on requests in flight, and how it answers.

use std::{collections::HashSet, fmt, sync::Arc};

use limiter_core::{Error, ErrorKind};
use tower_layer::Layer;

use super::{InFlightRule, gate::InFlightGate};
use crate::{
    request::common::{Common, layer_constructors, layer_methods},
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
    common: Arc<Common<InFlightRule>>,
}

impl InFlightLayer {
    layer_constructors!(InFlightRule, InFlightLimiter);

    /// Returns a layer with several limits, for those from a file.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidSetting`] if there is no limit.
    /// - [`ErrorKind::InvalidName`] if two have one name: header fields and metrics identify them by it.
    /// - [`ErrorKind::InvalidSetting`] if two count the permits of one limiter.
    /// - [`ErrorKind::InvalidSetting`] if clients [choose](crate::key::KeySource::Chosen) a key, and no limit of the layer
    ///   with a key of the client's [own](crate::key::KeySource::Own) counts all requests and is enforced for as many keys.
    /// - [`ErrorKind::InvalidSetting`] if a key is a secret, and its limiter can't hide it from its store.
    pub fn try_all(rules: impl IntoIterator<Item = InFlightRule>) -> Result<Self, Error> {
        let mut rules: Box<[_]> = rules.into_iter().collect();
        if rules.is_empty() {
            let fault = "the layer has no limits: give it at least one";
            return Err(Error::new(ErrorKind::InvalidSetting, fault));
        }
        let mut names = HashSet::new();
        for (place, rule) in rules.iter().enumerate() {
            if !names.insert(rule.name()) {
                let fault = format!("two limits are named {:?}; rename one", rule.name());
                return Err(Error::new(ErrorKind::InvalidName, fault));
            }
            let id = rule.limiter().id();
            let others = rules.get(..place).unwrap_or_default();
            if let Some(other) = others.iter().find(|other| other.limiter().id() == id) {
                let names = [other.name(), rule.name()];
                let fault = format!(
                    "the limits {names:?} count the permits of one limiter: make another one"
                );
                return Err(Error::new(ErrorKind::InvalidSetting, fault));
            }
            rule.spec().check_bounds(rules.iter().map(InFlightRule::spec))?;
            let limiter = rule.limiter();
            rule.spec().check_secret(limiter.store(), |key| limiter.enter(key, limiter.limit()))?;
        }
        rules.sort_by_key(|rule| rule.spec().source().order());
        Ok(Self { common: Arc::new(Common::new(rules)) })
    }

    layer_methods!(InFlightRule);
}

impl<S> Layer<S> for InFlightLayer {
    type Service = Limited<S, InFlightGate>;

    fn layer(&self, inner: S) -> Self::Service {
        Limited::new(inner, InFlightGate::new(Arc::clone(&self.common)))
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
        self.common.fmt_as("InFlightLayer", f)
    }
}
