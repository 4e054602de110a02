//! Policies from configuration files.

mod read;

use alloc::{borrow::ToOwned, collections::BTreeMap, format, string::String};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::{Algorithm, Cost, Error, ErrorKind, Limit, Policy, Quota, error::excerpt};

/// The policies of a program and their tiers, by name, as a configuration file has them.
///
#[doc = include_str!("../docs/items/policies.md")]
///
/// # Errors
///
/// A value that can't be read, an unknown field and a duplicate name are errors of the format. The
/// message has the keys of the value, quotes it and states what is expected; TOML adds the line.
///
/// [families]: Policy::families
/// [`Limiter::with_policy`]: crate::Limiter::with_policy
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policies {
    policies: BTreeMap<String, Policy>,
    /// By the name of their policy. Each has that policy's families, and a name of its own.
    tiers: BTreeMap<String, BTreeMap<String, Policy>>,
}

impl Policies {
    /// Returns these policies, without tiers.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`] if two have the same name.
    pub fn new(policies: impl IntoIterator<Item = Policy>) -> Result<Self, Error> {
        policies.into_iter().try_fold(Self::default(), Self::with)
    }

    /// Adds `tier` to the policy of that name.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`] if there is no such policy, or if it or one of its tiers has the
    /// tier's name.
    ///
    /// [`ErrorKind::InvalidSetting`] if the families of the tier's limits differ from the policy's, or the
    /// names of several.
    pub fn with_tier(mut self, policy: &str, tier: Policy) -> Result<Self, Error> {
        let Some(base) = self.policies.get(policy) else {
            let message =
                format!("unknown policy {:?}; add its limits before its tiers", excerpt(policy));
            return Err(Error::new(ErrorKind::InvalidName, message));
        };
        base.check_families(&tier)?;
        let name = tier.name().to_owned();
        let tiers = self.tiers.entry(policy.to_owned()).or_default();
        if name == policy || tiers.contains_key(&name) {
            let fault = "the policy or another tier has this name; rename the tier";
            return Err(Error::invalid(ErrorKind::InvalidName, "tier", &name, fault));
        }
        tiers.insert(name, tier);
        Ok(self)
    }

    /// Returns the policy of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Policy> {
        self.policies.get(name)
    }

    /// Returns a tier of a policy, both by name.
    #[must_use]
    pub fn tier(&self, policy: &str, tier: &str) -> Option<&Policy> {
        self.tiers.get(policy)?.get(tier)
    }

    /// Returns the tiers of a policy, in the order of their names.
    pub fn tiers(&self, policy: &str) -> impl Iterator<Item = &Policy> {
        self.tiers.get(policy).into_iter().flat_map(BTreeMap::values)
    }

    /// Returns the policies, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Policy> {
        self.policies.values()
    }

    fn with(mut self, policy: Policy) -> Result<Self, Error> {
        let name = policy.name().to_owned();
        if self.policies.contains_key(&name) {
            let fault = "another policy has this name; rename one";
            return Err(Error::invalid(ErrorKind::InvalidName, "policy", &name, fault));
        }
        self.policies.insert(name, policy);
        Ok(self)
    }
}

/// Returns the algorithm of a limit that names none: GCRA, or in a tier that of the policy's only
/// limit, or of its limit called `name`.
fn inherited(tier_of: Option<&Policy>, name: &str) -> Option<Algorithm> {
    let limit = match tier_of.map(Policy::limits) {
        None => return Some(Algorithm::Gcra),
        Some([only]) => Some(only),
        Some(limits) => limits.iter().find(|limit| limit.name() == name),
    };
    limit.map(Limit::algorithm)
}

macro_rules! as_text {
    ($($type:ty),*) => {$(
        /// A text: see its notation.
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    )*};
}

as_text!(Quota, Algorithm);

/// A number.
impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(u64::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl Serialize for Cost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.get())
    }
}
