//! Writes policies, in the shortest form that reads back as the same policies.

use alloc::{collections::BTreeMap, string::String};

use serde::{Serialize, Serializer, ser::SerializeMap};

use super::{Entry, Policies, inherited};
use crate::{Limit, Policy, notation};

impl Serialize for Policies {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(&self.0)
    }
}

/// A table with the fields `name`, and `limit` or `limits`: see [`Policies`](crate::Policies).
impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let limits = Limits { policy: self, tier_of: None };
        let mut table = serializer.serialize_map(Some(2))?;
        table.serialize_entry("name", self.name())?;
        table.serialize_entry(limits.field(), &limits)?;
        table.end()
    }
}

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let limits = Limits { policy: &self.policy, tier_of: None };
        if self.tiers.is_empty() && limits.only().is_some() {
            return limits.serialize(serializer);
        }
        let mut table = serializer.serialize_map(None)?;
        table.serialize_entry(limits.field(), &limits)?;
        if !self.tiers.is_empty() {
            let limits = |tier| Limits { policy: tier, tier_of: Some(&self.policy) };
            let tiers = self.tiers.iter().map(|(name, tier)| (name, limits(tier)));
            table.serialize_entry("tiers", &tiers.collect::<BTreeMap<_, _>>())?;
        }
        table.end()
    }
}

/// The limits of a policy, or of a tier.
struct Limits<'a> {
    policy: &'a Policy,
    tier_of: Option<&'a Policy>,
}

impl<'a> Limits<'a> {
    /// Returns the only limit if it has the policy's name, so that it is written without one.
    fn only(&self) -> Option<&'a Limit> {
        match self.policy.limits() {
            [limit] if limit.name() == self.policy.name() => Some(limit),
            _ => None,
        }
    }

    fn field(&self) -> &'static str {
        if self.only().is_some() { "limit" } else { "limits" }
    }

    /// Returns the limit as text, without an algorithm that reading would assume.
    fn text(&self, limit: &Limit) -> String {
        notation::text(limit, inherited(self.tier_of, limit.name()))
    }
}

impl Serialize for Limits<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.only() {
            Some(limit) => serializer.serialize_str(&self.text(limit)),
            None => {
                let limits = self.policy.limits().iter();
                serializer.collect_map(limits.map(|limit| (limit.name(), self.text(limit))))
            }
        }
    }
}
