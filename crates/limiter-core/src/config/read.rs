//! Reads policies.

use alloc::{
    borrow::ToOwned,
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error as FormatError, MapAccess, Unexpected, Visitor},
};

use super::{
    Entry, Policies, inherited,
    seed::{Form, Limits, NamedLimits, Seed, Table, Text, limit_of},
};
use crate::{Error, Policy, error::excerpt};

impl<'de> Deserialize<'de> for Policies {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let table = Table {
            expected: "a table of policies by name".into(),
            value: |name: &str| Body { name: Some(name.into()) },
        };
        deserializer.deserialize_map(table)?.into_iter().try_fold(
            Self::default(),
            |mut policies, (_, entry)| {
                policies.add(entry).map_err(D::Error::custom)?;
                Ok(policies)
            },
        )
    }
}

/// A table with the fields `name`, and `limit` or `limits`: see [`Policies`](crate::Policies).
impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Body { name: None }).map(|entry| entry.policy)
    }
}

/// Reads a policy and its tiers from a file, where the name is the key; or without `name` a policy by
/// itself, whose name is a field.
struct Body {
    name: Option<String>,
}

impl<'de> Visitor<'de> for Body {
    type Value = Entry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(
                f,
                "a limit such as \"100/min burst 20\", or a table with the field limit or limits, \
                 for {}",
                place(Some(name))
            ),
            None => f.write_str("a table with the fields name, and limit or limits"),
        }
    }

    fn visit_str<E: FormatError>(self, text: &str) -> Result<Entry, E> {
        let Some(name) = &self.name else {
            return Err(E::invalid_type(Unexpected::Str(text), &self));
        };
        let limits = Limits { place: place(Some(name)), form: Form::Text }.visit_str(text)?;
        entry(name, limits, Vec::new()).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entry, A::Error> {
        let fields: &[_] = match self.name {
            Some(_) => &["limit", "limits", "tiers"],
            None => &["name", "limit", "limits"],
        };
        let (mut name, mut limits, mut tiers) = (self.name, None, Vec::new());
        let mut found = Vec::new();
        loop {
            let place = place(name.as_deref());
            let read =
                |key: &str| field(key, fields, &found).map_err(|fault| format!("{place}: {fault}"));
            let key = Text { expected: "the name of a field", read };
            let Some(field) = map.next_key_seed(Seed(key))? else { break };
            found.push(field);
            match field {
                "name" => name = Some(map.next_value()?),
                "tiers" => tiers = map.next_value_seed(Seed(self::tiers(place)))?,
                _ => {
                    let form = if field == "limit" { Form::Text } else { Form::Table };
                    limits = Some(map.next_value_seed(Seed(Limits { place, form }))?);
                }
            }
        }
        let Some(name) = name else {
            return Err(A::Error::custom("a policy has no name; add the field name"));
        };
        let Some(limits) = limits else {
            let place = place(Some(&name));
            return Err(A::Error::custom(format!("{place}: no limit; add limit or limits")));
        };
        entry(&name, limits, tiers).map_err(A::Error::custom)
    }
}

/// Reads tiers by name.
fn tiers(place: String) -> impl for<'de> Visitor<'de, Value = Vec<(String, NamedLimits)>> {
    Table {
        expected: format!("a table of tiers by name for {place}"),
        value: move |name: &str| Limits { place: tier_of(&place, name), form: Form::Any },
    }
}

/// Returns the field called `key`, or why it can't follow those that were `found`.
fn field(
    key: &str,
    fields: &[&'static str],
    found: &[&'static str],
) -> Result<&'static str, String> {
    let Some(field) = fields.iter().find(|field| **field == key) else {
        let (key, fields) = (excerpt(key), fields.join(", "));
        return Err(format!("unknown field {key:?}; use {fields}"));
    };
    let is_limit = |field: &str| matches!(field, "limit" | "limits");
    match found.iter().find(|other| *other == field || is_limit(other) && is_limit(field)) {
        Some(other) if other == field => Err(format!("duplicate field {key:?}; remove one")),
        Some(other) => Err(format!("{key:?} can't follow {other:?}; use one of them")),
        None => Ok(field),
    }
}

/// Returns the policy of these limits with its tiers, or the fault and its place.
fn entry(
    name: &str,
    limits: NamedLimits,
    tiers: Vec<(String, NamedLimits)>,
) -> Result<Entry, String> {
    let of_policy = place(Some(name));
    let policy = policy(name, limits, &of_policy, None)?;
    let mut entry = Entry { policy, tiers: BTreeMap::new() };
    for (name, limits) in tiers {
        let place = tier_of(&of_policy, &name);
        let tier = self::policy(&name, limits, &place, Some(&entry.policy))?;
        entry.add(tier).map_err(|error| in_place(&place, &error))?;
    }
    Ok(entry)
}

/// Returns the policy of these limits, or of a tier of another policy.
fn policy(
    name: &str,
    limits: NamedLimits,
    place: &str,
    tier_of: Option<&Policy>,
) -> Result<Policy, String> {
    let limits = limits.into_iter().map(|(limit, written)| {
        let (what, name, place) = match &limit {
            Some(limit) => ("limit", &**limit, limit_of(place, limit)),
            None => ("policy", name, place.to_owned()),
        };
        let algorithm = written.algorithm.or_else(|| inherited(tier_of, name)).ok_or_else(|| {
            let limits = tier_of.map_or(&[][..], Policy::limits).iter();
            let names = limits.map(|limit| format!("{:?}", limit.name())).collect::<Vec<_>>();
            format!(
                "{place}: the policy has several limits; give the tier's limits their names, {}",
                names.join(", ")
            )
        })?;
        written.limit(what, name, algorithm).map_err(|error| in_place(&place, &error))
    });
    let limits = limits.collect::<Result<_, _>>()?;
    Policy::from_limits(name, limits).map_err(|error| in_place(place, &error))
}

fn place(policy: Option<&str>) -> String {
    match policy {
        Some(name) => format!("policy {:?}", excerpt(name)),
        None => "policy".into(),
    }
}

fn tier_of(policy: &str, name: &str) -> String {
    format!("tier {:?} of {policy}", excerpt(name))
}

/// Returns the error's message after the place, unless it names that itself.
fn in_place(place: &str, error: &Error) -> String {
    let message = error.to_string();
    let names_place = message.starts_with(&format!("invalid {place}:"));
    if names_place { message } else { format!("{place}: {message}") }
}
