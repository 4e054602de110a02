//! Reads policies.
//!
//! A format reports the place of an error that a visitor returns, so fields and texts are checked
//! while they are read, and not afterwards.

use alloc::{
    borrow::ToOwned,
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec,
    vec::Vec,
};
use core::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error as FormatError, MapAccess, Unexpected, Visitor},
};

use super::{Entry, Node, Policies, inherited, scalar::Text};
use crate::{Error, Policy, error::excerpt, notation::Written};

impl<'de> Deserialize<'de> for Policies {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let file = Reader { form: Form::File, name: String::new(), place: String::new() };
        let (_, file) = file.deserialize(deserializer)?;
        let policies = file.table().iter().try_fold(Self::default(), |policies, (name, node)| {
            policies.with(entry(name, node)?).map_err(|error| error.to_string())
        });
        policies.map_err(D::Error::custom)
    }
}

/// A table of one policy, by its name: see [`Policies`](crate::Policies).
impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut entries = Policies::deserialize(deserializer)?.0.into_values();
        match (entries.next(), entries.next()) {
            (Some(Entry { policy, tiers }), None) if tiers.is_empty() => Ok(policy),
            _ => Err(D::Error::custom("expected one policy by its name, without tiers")),
        }
    }
}

/// Reads and checks what a file has at one place.
struct Reader {
    form: Form,
    /// The key of the value.
    name: String,
    /// As errors name it, such as `policy "login"`.
    place: String,
}

#[derive(Clone, Copy)]
enum Form {
    /// A table of policies.
    File,
    /// The text of the only limit, or a table with limits and tiers.
    Policy,
    Limit,
    Limits,
    Tiers,
    /// The text of the only limit, or a table of limits.
    Tier,
}

impl Reader {
    /// Returns the reader of the value of `key`, or why `key` can't follow those of `table`.
    fn value(&self, key: &str, table: &[(String, Node)]) -> Result<Self, String> {
        let place = &self.place;
        let (form, place) = match (self.form, key) {
            (Form::File, _) => (Form::Policy, policy_of(key)),
            (Form::Tiers, _) => (Form::Tier, part_of(place, "tier", key)),
            (Form::Tier | Form::Limits, _) => (Form::Limit, part_of(place, "limit", key)),
            (_, "limit") => (Form::Limit, place.clone()),
            (_, "limits") => (Form::Limits, place.clone()),
            (_, "tiers") => (Form::Tiers, place.clone()),
            _ => {
                let key = excerpt(key);
                return Err(format!("{place}: unknown field {key:?}; use limit, limits, tiers"));
            }
        };
        let is_limit = |field: &str| matches!(field, "limit" | "limits");
        let is_rival = |other: &str| other == key || is_limit(other) && is_limit(key);
        let other = table.iter().find(|(other, _)| is_rival(other));
        match (self.form, other) {
            (Form::Policy, Some((other, _))) if other == key => {
                Err(format!("{place}: duplicate field {key:?}; remove one"))
            }
            (Form::Policy, Some((other, _))) => {
                Err(format!("{place}: {key:?} can't follow {other:?}; use one of them"))
            }
            _ => Ok(Self { form, name: key.to_owned(), place }),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Reader {
    type Value = (String, Node);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let (form, name) = (self.form, self.name.clone());
        let node = match form {
            // An empty document has no policies.
            Form::File => deserializer.deserialize_map(self)?,
            _ => deserializer.deserialize_any(self)?,
        };
        // The format reports the place of this error too.
        if matches!(form, Form::Policy) {
            entry(&name, &node).map_err(D::Error::custom)?;
        }
        Ok((name, node))
    }
}

impl<'de> Visitor<'de> for Reader {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.form {
            Form::File => return f.write_str("a table of policies by name"),
            Form::Policy => {
                "a limit such as \"100/min burst 20\", or a table with the field limit or limits,"
            }
            Form::Limit => "a limit such as \"100/min burst 20\"",
            Form::Limits => "a table of limits by name",
            Form::Tiers => "a table of tiers by name",
            Form::Tier => "a limit such as \"100/min burst 20\", or a table of limits by name,",
        })?;
        write!(f, " for {}", self.place)
    }

    fn visit_str<E: FormatError>(self, text: &str) -> Result<Node, E> {
        if matches!(self.form, Form::File | Form::Limits | Form::Tiers) {
            return Err(E::invalid_type(Unexpected::Str(text), &self));
        }
        let limit = Written::parse(text);
        limit.map_err(|error| E::custom(in_place(&self.place, &error)))?;
        Ok(Node::Text(text.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        if matches!(self.form, Form::Limit) {
            return Err(A::Error::invalid_type(Unexpected::Map, &self));
        }
        let mut table = Vec::new();
        loop {
            let key = Text { expected: "a name", read: |key: &str| self.value(key, &table) };
            let Some(value) = map.next_key_seed(key)? else { return Ok(Node::Table(table)) };
            table.push(map.next_value_seed(value)?);
        }
    }
}

impl Node {
    fn text(&self) -> &str {
        if let Self::Text(text) = self { text } else { "" }
    }

    fn table(&self) -> &[(String, Self)] {
        if let Self::Table(table) = self { table } else { &[] }
    }

    fn get(&self, key: &str) -> Option<&Self> {
        self.table().iter().find(|(other, _)| other == key).map(|(_, node)| node)
    }
}

/// Returns the policy that `node` describes with its tiers, or the fault and its place.
fn entry(name: &str, node: &Node) -> Result<Entry, String> {
    let place = policy_of(name);
    let limits = match node {
        Node::Text(_) => Some(node),
        Node::Table(_) => node.get("limit").or_else(|| node.get("limits")),
    };
    let limits = limits.ok_or_else(|| format!("{place}: no limit; add limit or limits"))?;
    let policy = policy(name, limits, &place, None)?;
    let mut entry = Entry { policy, tiers: BTreeMap::new() };
    for (name, limits) in node.get("tiers").map_or(&[][..], Node::table) {
        let place = part_of(&place, "tier", name);
        let tier = self::policy(name, limits, &place, Some(&entry.policy))?;
        entry.add(tier).map_err(|error| in_place(&place, &error))?;
    }
    Ok(entry)
}

/// Returns the policy of these limits, or of a tier of another policy.
fn policy(
    name: &str,
    limits: &Node,
    place: &str,
    tier_of: Option<&Policy>,
) -> Result<Policy, String> {
    let limits = match limits {
        Node::Text(text) => vec![(name, &**text, place.to_owned())],
        Node::Table(limits) => {
            let part = |name| part_of(place, "limit", name);
            limits.iter().map(|(name, text)| (&**name, text.text(), part(name))).collect()
        }
    };
    let limits = limits.into_iter().map(|(name, text, place)| {
        let written = Written::parse(text).map_err(|error| in_place(&place, &error))?;
        let algorithm =
            written.algorithm.or_else(|| inherited(tier_of, name)).ok_or_else(|| {
                let limits = tier_of.into_iter().flat_map(Policy::limits);
                let names: Vec<_> = limits.map(|limit| format!("{:?}", limit.name())).collect();
                let remedy = format!("give the tier's limits their names, {}", names.join(", "));
                format!("{place}: the policy has several limits; {remedy}")
            })?;
        written.limit(name, algorithm).map_err(|error| in_place(&place, &error))
    });
    let limits = limits.collect::<Result<_, _>>()?;
    Policy::from_limits(name, limits).map_err(|error| in_place(place, &error))
}

fn policy_of(name: &str) -> String {
    format!("policy {:?}", excerpt(name))
}

fn part_of(place: &str, what: &str, name: &str) -> String {
    format!("{what} {:?} of {place}", excerpt(name))
}

/// Returns the error's message after the place, unless it names that itself.
fn in_place(place: &str, error: &Error) -> String {
    let message = error.to_string();
    let names_place = message.starts_with(&format!("invalid {place}:"));
    if names_place { message } else { format!("{place}: {message}") }
}
