//! Policies are written, in the shortest form that reads back to the same.

use core::fmt;

use serde::{Serialize, Serializer, ser::SerializeMap};

use super::{Policies, kind_in_tier};
use crate::{Kind, Limit, Policy};

impl Serialize for Policies {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|policy| (policy.name(), Body(policy))))
    }
}

/// As a table with the fields `name`, `limit` or `limits`, and `tiers`: see
/// [`Policies`](crate::Policies).
impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut table = serializer.serialize_map(None)?;
        table.serialize_entry("name", self.name())?;
        fields(self, table)
    }
}

/// A policy without its name, which is the key that it stands at.
struct Body<'a>(&'a Policy);

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let limits = Limits { policy: self.0, tier_of: None };
        if limits.only().is_some() && self.0.tiers().is_empty() {
            return limits.serialize(serializer);
        }
        fields(self.0, serializer.serialize_map(None)?)
    }
}

fn fields<M: SerializeMap>(policy: &Policy, mut table: M) -> Result<M::Ok, M::Error> {
    let limits = Limits { policy, tier_of: None };
    let field = if limits.only().is_some() { "limit" } else { "limits" };
    table.serialize_entry(field, &limits)?;
    if !policy.tiers().is_empty() {
        table.serialize_entry("tiers", &Tiers(policy))?;
    }
    table.end()
}

/// The tiers of a policy.
struct Tiers<'a>(&'a Policy);

impl Serialize for Tiers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let limits = |tier| Limits { policy: tier, tier_of: Some(self.0) };
        let tiers = self.0.tiers().iter().map(|tier| (tier.name(), limits(tier)));
        serializer.collect_map(tiers)
    }
}

/// The limits of a policy, or of a tier.
struct Limits<'a> {
    policy: &'a Policy,
    tier_of: Option<&'a Policy>,
}

impl<'a> Limits<'a> {
    /// Returns the one limit that can be written without a name.
    fn only(&self) -> Option<Text<'a>> {
        match self.policy.limits() {
            [limit] if limit.name() == self.policy.name() => Some(self.text(limit, None)),
            _ => None,
        }
    }

    fn text(&self, limit: &'a Limit, name: Option<&str>) -> Text<'a> {
        let kind = match self.tier_of {
            None => Some(Kind::Gcra),
            Some(policy) => kind_in_tier(policy, name),
        };
        Text { limit, otherwise: kind }
    }
}

impl Serialize for Limits<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Some(only) = self.only() {
            return only.serialize(serializer);
        }
        let limits = self.policy.limits().iter();
        serializer
            .collect_map(limits.map(|limit| (limit.name(), self.text(limit, Some(limit.name())))))
    }
}

/// A limit with its kind, unless it is the one that it has otherwise.
struct Text<'a> {
    limit: &'a Limit,
    otherwise: Option<Kind>,
}

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (quota, kind) = (self.limit.quota(), self.limit.kind());
        if self.otherwise == Some(kind) { quota.fmt(f) } else { write!(f, "{quota} by {kind}") }
    }
}
