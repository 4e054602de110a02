//! Policies are read.

use alloc::{borrow::ToOwned, format, string::String, vec::Vec};
use core::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error as FormatError, MapAccess, Unexpected, Visitor},
};

use super::{
    Policies, kind_in_tier,
    text::Text,
    written::{Limits, Place, Tiers, Written},
};
use crate::{Kind, Policy};

impl<'de> Deserialize<'de> for Policies {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(AllPolicies)
    }
}

/// As a table with the fields `name`, `limit` or `limits`, and `tiers`: see
/// [`Policies`](crate::Policies).
impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OnePolicy { name: None })
    }
}

struct AllPolicies;

impl<'de> Visitor<'de> for AllPolicies {
    type Value = Policies;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of policies by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Policies, A::Error> {
        let mut policies = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            policies.push(map.next_value_seed(OnePolicy { name: Some(&name) })?);
        }
        Policies::new(policies).map_err(A::Error::custom)
    }
}

/// A policy that has its name from the key it stands at, or from a field.
struct OnePolicy<'a> {
    name: Option<&'a str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Name,
    Limit,
    Limits,
    Tiers,
}

impl<'de> DeserializeSeed<'de> for OnePolicy<'_> {
    type Value = Policy;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Policy, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for OnePolicy<'_> {
    type Value = Policy;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            Some(_) => write!(
                f,
                "a limit as in \"100/min burst 20\", or a table with the field limit or limits, for {}",
                self.place()
            ),
            None => f.write_str("a table with the fields name, and limit or limits"),
        }
    }

    fn visit_str<E: FormatError>(self, text: &str) -> Result<Policy, E> {
        let Some(name) = self.name else {
            return Err(E::invalid_type(Unexpected::Str(text), &self));
        };
        let limit = self.place().read(text).map_err(E::custom)?;
        let policy = Written::One(limit).policy(name, self.place(), |_| Ok(Kind::Gcra));
        policy.map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Policy, A::Error> {
        let mut name = self.name.map(ToOwned::to_owned);
        let (mut limits, mut tiers) = (None, None);
        loop {
            let place = Place { policy: name.as_deref(), tier: None, limit: None };
            let is_there = |field| match field {
                Field::Name => name.is_some(),
                Field::Limit | Field::Limits => limits.is_some(),
                Field::Tiers => tiers.is_some(),
            };
            let read = |key: &str| self.field(key, is_there).map_err(|fault| place.say(&fault));
            let Some(field) = map.next_key_seed(Text { expected: "a field's name", read })? else {
                break;
            };
            match field {
                Field::Name => name = Some(map.next_value()?),
                Field::Limit => limits = Some(Written::One(map.next_value_seed(place.text())?)),
                Field::Limits => limits = Some(map.next_value_seed(Limits(place))?),
                Field::Tiers => tiers = Some(map.next_value_seed(Tiers(place))?),
            }
        }
        let Some(name) = name else {
            return Err(A::Error::custom("a policy has no name; add the field name"));
        };
        let place = Place { policy: Some(&name), tier: None, limit: None };
        let Some(limits) = limits else {
            return Err(A::Error::custom(place.say(&"there is no limit; add limit or limits")));
        };
        let policy = limits.policy(&name, place, |_| Ok(Kind::Gcra));
        let policy = policy.map_err(A::Error::custom)?;
        tiers.into_iter().flatten().try_fold(policy, |policy, (name, limits)| {
            let place = Place { tier: Some(&name), ..place };
            let tier = limits.policy(&name, place, |limit| inherited(&policy, limit));
            let tier = tier.map_err(A::Error::custom)?;
            policy.with_tier(tier).map_err(|error| A::Error::custom(place.say_error(&error)))
        })
    }
}

impl OnePolicy<'_> {
    fn place(&self) -> Place<'_> {
        Place { policy: self.name, tier: None, limit: None }
    }

    /// Returns the field that is called `key`, if it may stand here.
    fn field(&self, key: &str, is_there: impl Fn(Field) -> bool) -> Result<Field, String> {
        let field = match key {
            "name" if self.name.is_none() => Field::Name,
            "limit" => Field::Limit,
            "limits" => Field::Limits,
            "tiers" => Field::Tiers,
            _ => {
                let name = if self.name.is_none() { "name, " } else { "" };
                return Err(format!("{key:?} is no field; use {name}limit or limits, and tiers"));
            }
        };
        match field {
            Field::Limit | Field::Limits if is_there(field) => {
                Err(format!("{key:?} comes second; use either limit or limits"))
            }
            _ if is_there(field) => Err(format!("{key:?} comes twice; use it once")),
            _ => Ok(field),
        }
    }
}

/// Returns the kind that a tier's limit has without naming one.
fn inherited(policy: &Policy, limit: Option<&str>) -> Result<Kind, String> {
    kind_in_tier(policy, limit).ok_or_else(|| {
        let names: Vec<_> =
            policy.limits().iter().map(|limit| format!("{:?}", limit.name())).collect();
        format!(
            "the policy has several limits; give the tier's by their names, {}",
            names.join(", ")
        )
    })
}
