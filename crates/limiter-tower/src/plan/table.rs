//! Plans by name.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use arc_swap::ArcSwap;
use http::Method;
use limiter_core::{Error, ErrorKind, Limiter, Policy, WaitingLimiter};

use super::Plan;
use crate::{Head, observe};

/// Named plans over the states of one limiter: tiers, or policies by route or method.
///
/// A plan's name is its policy's name. The limiter's own policy is a plan too, unless another policy of
/// that name is given. Clones share the table. So do the closures that
/// [`by_extension`](Self::by_extension), [`by_route`](Self::by_route) and
/// [`by_method`](Self::by_method) return, so [`replace`](Self::replace) applies while requests are served.
///
/// ```
/// use limiter_core::{MemoryLimiter, Policy, Quota};
/// use limiter_tower::{ClientIp, OnMissing, Plans, RateLimitLayer};
///
/// /// An authentication layer has inserted it.
/// #[derive(Clone)]
/// struct Tier(String);
///
/// let free = MemoryLimiter::new(Policy::gcra("free", Quota::per_minute(10)));
/// let plans = Plans::new(free.clone(), [Policy::gcra("premium", Quota::per_minute(1_000))])?;
///
/// // A request without a tier, or with an unknown one, has the limiter's own policy, `free`.
/// let layer = RateLimitLayer::new(free, ClientIp::peer(), OnMissing::Reject)
///     .policy(plans.by_extension(|tier: &Tier| &tier.0));
/// # Ok::<(), limiter_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Plans {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// The limiter whose states all plans use.
    own: Plan,
    by_name: ArcSwap<HashMap<Box<str>, Plan>>,
    /// Whether an unknown name was reported since the table was made or replaced.
    reported: AtomicBool,
}

impl Plans {
    /// Returns the plans of `policies` over the states of `limiter`.
    ///
    /// # Errors
    ///
    /// As [`Limiter::with_policy`], and [`ErrorKind::InvalidName`] if two policies have one name.
    pub fn new(
        limiter: impl Limiter + 'static,
        policies: impl IntoIterator<Item = Policy>,
    ) -> Result<Self, Error> {
        Self::of(Plan::new(limiter), policies)
    }

    /// Returns plans that can delay requests: see [`RateLimitLayer::waiting`](crate::RateLimitLayer::waiting).
    ///
    /// # Errors
    ///
    /// As [`Plans::new`].
    pub fn waiting(
        limiter: impl WaitingLimiter + 'static,
        policies: impl IntoIterator<Item = Policy>,
    ) -> Result<Self, Error> {
        Self::of(Plan::waiting(limiter), policies)
    }

    fn of(own: Plan, policies: impl IntoIterator<Item = Policy>) -> Result<Self, Error> {
        let by_name = ArcSwap::from_pointee(table(&own, policies)?);
        Ok(Self { shared: Arc::new(Shared { own, by_name, reported: AtomicBool::new(false) }) })
    }

    /// Replaces all plans. Keys keep their debts. On an error nothing changes.
    ///
    /// # Errors
    ///
    /// As [`Plans::new`].
    pub fn replace(&self, policies: impl IntoIterator<Item = Policy>) -> Result<(), Error> {
        self.shared.by_name.store(Arc::new(table(&self.shared.own, policies)?));
        self.shared.reported.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the plan of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Plan> {
        self.shared.by_name.load().get(name).cloned()
    }

    /// Returns the plan of that name. Reports an unknown name once.
    fn find(&self, name: &str) -> Option<Plan> {
        let plan = self.get(name);
        if plan.is_none() && !self.shared.reported.swap(true, Ordering::Relaxed) {
            observe::log::unknown_plan(self.shared.own.policy(), name);
        }
        plan
    }

    /// Returns a selector by a value in the request's extensions: `name` returns the plan's name.
    ///
    /// Without the value, and for an unknown name, the rule's own policy applies. An unknown name is
    /// logged once.
    pub fn by_extension<T, N>(
        &self,
        name: N,
    ) -> impl Fn(Head<'_>) -> Option<Plan> + Send + Sync + 'static
    where
        T: Send + Sync + 'static,
        N: Fn(&T) -> &str + Send + Sync + 'static,
    {
        let plans = self.clone();
        move |head| plans.find(name(head.extensions.get::<T>()?))
    }

    /// Returns a selector by axum's matched route: pairs of a route's pattern and a plan's name.
    ///
    /// For other routes the rule's own policy applies.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`] if a pair names an unknown plan. The message lists the known ones.
    #[cfg(feature = "axum")]
    pub fn by_route(
        &self,
        routes: &[(&str, &str)],
    ) -> Result<impl Fn(Head<'_>) -> Option<Plan> + Send + Sync + use<>, Error> {
        let names = self.known(routes.iter().map(|(route, name)| ((*route).to_owned(), *name)))?;
        let plans = self.clone();
        Ok(move |head: Head<'_>| {
            let path = head.extensions.get::<axum::extract::MatchedPath>()?;
            plans.find(names.get(path.as_str())?)
        })
    }

    /// Returns a selector by method: pairs of a method and a plan's name.
    ///
    /// For other methods the rule's own policy applies.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`] if a pair names an unknown plan. The message lists the known ones.
    pub fn by_method(
        &self,
        methods: &[(Method, &str)],
    ) -> Result<impl Fn(Head<'_>) -> Option<Plan> + Send + Sync + use<>, Error> {
        let names = self.known(methods.iter().map(|(method, name)| (method.clone(), *name)))?;
        let plans = self.clone();
        Ok(move |head: Head<'_>| plans.find(names.get(head.method)?))
    }

    /// Returns a map to plans' names, each of which exists.
    fn known<'a, K: Eq + std::hash::Hash>(
        &self,
        names: impl IntoIterator<Item = (K, &'a str)>,
    ) -> Result<HashMap<K, Box<str>>, Error> {
        let mut map = HashMap::new();
        for (key, name) in names {
            if self.get(name).is_none() {
                let table = self.shared.by_name.load();
                let mut known: Vec<_> = table.keys().map(|name| format!("{name:?}")).collect();
                known.sort();
                let message =
                    format!("unknown plan {name:?}; expected one of {}", known.join(", "));
                return Err(Error::new(ErrorKind::InvalidName, message));
            }
            map.insert(key, name.into());
        }
        Ok(map)
    }
}

fn table(
    own: &Plan,
    policies: impl IntoIterator<Item = Policy>,
) -> Result<HashMap<Box<str>, Plan>, Error> {
    let mut table = HashMap::new();
    for policy in policies {
        let name = policy.name();
        if table.insert(name.into(), own.with_policy(&policy)?).is_some() {
            let message = format!("two plans are named {name:?}; give each a name of its own");
            return Err(Error::new(ErrorKind::InvalidName, message));
        }
    }
    table.entry(own.policy().name().into()).or_insert_with(|| own.clone());
    Ok(table)
}
