//! Plans by name.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use arc_swap::ArcSwap;
use limiter_core::{Error, ErrorKind, Limiter, Policy, WaitingLimiter};

use super::Plan;
use crate::key::Head;

/// Named plans over the states of one limiter, such as tiers.
///
/// A plan's name is its policy's name. The limiter's own policy is a plan too, unless another policy of
/// that name is given. Clones share the table, and so do the closures that [`by_extension`](Self::by_extension) returns,
/// so [`replace`](Self::replace) applies while requests are served.
///
/// ```
/// use limiter_core::{MemoryLimiter, Policy, Quota};
/// use limiter_tower::{ClientIp, RateLimitLayer, Rule, plan::Plans};
///
/// /// An authentication layer has inserted it.
/// #[derive(Clone)]
/// struct Tier(String);
///
/// let free = MemoryLimiter::new(Policy::gcra("free", Quota::per_minute(10)));
/// let plans = Plans::new(free.clone(), [Policy::gcra("premium", Quota::per_minute(1_000))])?;
///
/// // A request without a tier, or with one that no plan has, has the plan `free`.
/// let rule = Rule::new(free, ClientIp::peer()).plan(plans.by_extension(|tier: &Tier| &tier.0, "free")?);
/// let layer = RateLimitLayer::all([rule]);
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
    by_name: ArcSwap<Table>,
    /// The names that selectors return. The table always has them. Locked while it is replaced.
    selected: Mutex<HashSet<Box<str>>>,
}

/// The plans by name. The limiter's own is `None`: it is the rule's own plan, which a handle may change.
type Table = HashMap<Box<str>, Option<Plan>>;

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

    /// Returns plans that can delay requests: see [`Rule::waiting`](crate::Rule::waiting).
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
        Ok(Self { shared: Arc::new(Shared { own, by_name, selected: Mutex::default() }) })
    }

    /// Replaces all plans. Keys keep what they have used under limits of the same [span](Policy::identities); those
    /// under which they begin fresh are logged. On an error nothing changes.
    ///
    /// # Errors
    ///
    /// As [`Plans::new`], and [`ErrorKind::InvalidName`] if a plan is missing that a selector names.
    pub fn replace(&self, policies: impl IntoIterator<Item = Policy>) -> Result<(), Error> {
        self.replacement(policies)?();
        Ok(())
    }

    /// Returns what replaces all plans when it is called, which cannot fail.
    ///
    /// # Errors
    ///
    /// As [`replace`](Self::replace).
    pub(crate) fn replacement(
        &self,
        policies: impl IntoIterator<Item = Policy>,
    ) -> Result<Box<dyn FnOnce() + Send>, Error> {
        let mut table = table(&self.shared.own, policies)?;
        for name in self.lock_selected().iter() {
            check_known(&table, name)?;
        }
        let plans = self.clone();
        Ok(Box::new(move || {
            let selected = plans.lock_selected();
            let old = plans.shared.by_name.load();
            // A selector that was made in between keeps its plan.
            let new = selected.iter().filter(|name| !table.contains_key(&***name));
            let kept: Vec<_> =
                new.filter_map(|name| Some((name.clone(), old.get(name)?.clone()))).collect();
            table.extend(kept);
            let own = &plans.shared.own;
            for (name, new) in &table {
                if let Some(old) = old.get(name) {
                    let [old, new] = [old, new].map(|plan| plan.as_ref().unwrap_or(own));
                    old.log_resets_by(name, new);
                }
            }
            plans.shared.by_name.store(Arc::new(table));
        }))
    }

    /// Returns the plan of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Plan> {
        let plan = self.shared.by_name.load().get(name)?.clone();
        Some(plan.unwrap_or_else(|| self.shared.own.clone()))
    }

    /// Returns a selector by a value in the request's extensions: `name` returns the plan's name.
    ///
    /// A request without the value, or with a name that no plan has, has the plan `otherwise`. The name of
    /// the limiter's own policy selects the rule's own, as a program has last
    /// [set](crate::Rule::set_policy) it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`] if no plan has the name `otherwise`. The message lists the known ones.
    pub fn by_extension<T, N>(
        &self,
        name: N,
        otherwise: &str,
    ) -> Result<impl Fn(Head<'_>) -> Option<Plan> + Send + Sync + use<T, N>, Error>
    where
        T: Send + Sync + 'static,
        N: Fn(&T) -> &str + Send + Sync + 'static,
    {
        self.select([otherwise])?;
        let (plans, otherwise) = (self.clone(), otherwise.to_owned());
        Ok(move |head: Head<'_>| {
            let table = plans.shared.by_name.load();
            let named = head.extensions.get::<T>().and_then(|value| table.get(name(value)));
            named.or_else(|| table.get(&*otherwise))?.clone()
        })
    }

    /// Notes that a selector returns these names, which have to exist from now on.
    fn select<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<(), Error> {
        let mut selected = self.lock_selected();
        let table = self.shared.by_name.load();
        for name in names {
            check_known(&table, name)?;
            selected.insert(name.into());
        }
        Ok(())
    }

    fn lock_selected(&self) -> MutexGuard<'_, HashSet<Box<str>>> {
        self.shared.selected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns an error, which lists the known plans, unless the table has a plan of this name.
fn check_known(table: &Table, name: &str) -> Result<(), Error> {
    if table.contains_key(name) {
        return Ok(());
    }
    let mut known: Vec<_> = table.keys().map(|name| format!("{name:?}")).collect();
    known.sort();
    let message = format!("unknown plan {name:?}; expected one of {}", known.join(", "));
    Err(Error::new(ErrorKind::InvalidName, message))
}

fn table(own: &Plan, policies: impl IntoIterator<Item = Policy>) -> Result<Table, Error> {
    let mut table = Table::new();
    for policy in policies {
        let name = policy.name();
        if table.insert(name.into(), Some(own.with_policy(&policy)?)).is_some() {
            let message = format!("two plans are named {name:?}; give each a name of its own");
            return Err(Error::new(ErrorKind::InvalidName, message));
        }
    }
    table.entry(own.policy().name().into()).or_insert(None);
    Ok(table)
}
