//! Policies from configuration files.

mod read;
mod scalar;
mod text;
mod write;
mod written;

use alloc::{
    borrow::ToOwned,
    collections::btree_map::{self, BTreeMap, Entry},
    format,
    string::String,
};

use crate::{Error, ErrorKind, Kind, Policy};

/// The policies of a program, by name, as a configuration file has them.
///
/// With the feature `serde` they are read from any self-describing format, such as TOML, JSON or
/// YAML, and written to it. A policy of one limit is a text; one with tiers is a table with the
/// field `limit`; several limits stand in a table `limits`, by name. See [`Policy::parse`] for the
/// texts. In a tier the kind of a limit may be left out: it is that of the policy's limit, of the
/// same name where there are several.
///
/// ```
/// use limiter_core::{Kind, Policies};
///
/// let policies: Policies = toml::from_str(r#"
///     search = "100/min burst 20"
///
///     [login]
///     limit = "5/min by sliding-log"
///     [login.tiers]
///     staff = "50/min"
///
///     [api.limits]
///     burst = "10/s"
///     hourly = "1_000/h by sliding-log"
///     [api.tiers.premium]
///     burst = "100/s"
///     hourly = "10_000/h"
/// "#)?;
/// let login = policies.get("login").ok_or("no policy")?;
/// assert_eq!(login.tiers()[0].limits()[0].kind(), Kind::SlidingLog);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// Policies are in the order of their names, whatever the order of the file. Tiers are in the order
/// in which the format hands them out, which is not always that of the file: TOML's may sort them.
///
/// A [`Policy`] by itself has its name in a field `name` beside the others.
///
/// # Errors
///
/// What is not understood is an error of the format, which quotes it and says what was expected and
/// of which policy; TOML adds the line. A field that is not known is an error too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policies(BTreeMap<String, Policy>);

impl Policies {
    /// Returns these policies.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`] if two have the same name.
    pub fn new(policies: impl IntoIterator<Item = Policy>) -> Result<Self, Error> {
        let mut by_name = BTreeMap::new();
        for policy in policies {
            match by_name.entry(policy.name().to_owned()) {
                Entry::Vacant(place) => drop(place.insert(policy)),
                Entry::Occupied(place) => {
                    let message = format!("there are two policies {:?}", place.key());
                    return Err(Error::new(ErrorKind::InvalidName, message));
                }
            }
        }
        Ok(Self(by_name))
    }

    /// Returns the policy of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Policy> {
        self.0.get(name)
    }

    /// Returns the policies, by name.
    pub fn iter(&self) -> btree_map::Values<'_, String, Policy> {
        self.0.values()
    }

    /// Returns how many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> IntoIterator for &'a Policies {
    type Item = &'a Policy;
    type IntoIter = btree_map::Values<'a, String, Policy>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Returns the kind that a tier's limit has if it names none: that of the policy's only limit, or
/// of the one with its name.
fn kind_in_tier(policy: &Policy, limit: Option<&str>) -> Option<Kind> {
    match policy.limits() {
        [only] => Some(only.kind()),
        limits => {
            let same = limits.iter().find(|other| Some(other.name()) == limit);
            same.map(crate::Limit::kind)
        }
    }
}
