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
        deserializer.deserialize_map(File)
    }
}

/// A table with the fields `name`, and `limit` or `limits`: see [`Policies`](crate::Policies).
impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Named(None).deserialize(deserializer).map(|entry| entry.policy)
    }
}

struct File;

impl<'de> Visitor<'de> for File {
    type Value = Policies;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of policies by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Policies, A::Error> {
        let mut policies = Policies::default();
        while let Some(name) = map.next_key::<String>()? {
            let entry = map.next_value_seed(Named(Some(&name)))?;
            policies = policies.with(entry).map_err(A::Error::custom)?;
        }
        Ok(policies)
    }
}

/// Reads a policy with its tiers, by its name in a file; or a policy by itself, which has its name in
/// a field.
struct Named<'a>(Option<&'a str>);

impl<'de> DeserializeSeed<'de> for Named<'_> {
    type Value = Entry;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Entry, D::Error> {
        let form = if self.0.is_some() { Form::Policy } else { Form::Alone };
        let node = Reader { form, place: policy_of(self.0) }.deserialize(deserializer)?;
        entry(self.0, &node).map_err(D::Error::custom)
    }
}

/// Reads what a file has at one place, and checks its fields and texts.
struct Reader {
    form: Form,
    /// As errors name it, such as `policy "login"`.
    place: String,
}

#[derive(Clone, Copy)]
enum Form {
    /// The text of the only limit, or a table with limits and tiers.
    Policy,
    /// A table with the name and the limits.
    Alone,
    Name,
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
        let fields = match self.form {
            Form::Alone => "name, limit, limits",
            Form::Policy => "limit, limits, tiers",
            Form::Tiers => {
                return Ok(Self { form: Form::Tier, place: part_of(place, "tier", key) });
            }
            _ => return Ok(Self { form: Form::Limit, place: part_of(place, "limit", key) }),
        };
        let form = match (self.form, key) {
            (_, "limit") => Form::Limit,
            (_, "limits") => Form::Limits,
            (Form::Alone, "name") => Form::Name,
            (Form::Policy, "tiers") => Form::Tiers,
            _ => return Err(format!("{place}: unknown field {:?}; use {fields}", excerpt(key))),
        };
        let is_limit = |field: &str| matches!(field, "limit" | "limits");
        for (other, _) in table {
            if other == key {
                return Err(format!("{place}: duplicate field {key:?}; remove one"));
            }
            if is_limit(other) && is_limit(key) {
                return Err(format!("{place}: {key:?} can't follow {other:?}; use one of them"));
            }
        }
        Ok(Self { form, place: place.clone() })
    }
}

impl<'de> DeserializeSeed<'de> for Reader {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.form {
            Form::Policy => {
                "a limit such as \"100/min burst 20\", or a table with the field limit or limits,"
            }
            Form::Alone => return f.write_str("a table with the fields name, and limit or limits"),
            Form::Name => "a name",
            Form::Limit => "a limit such as \"100/min burst 20\"",
            Form::Limits => "a table of limits by name",
            Form::Tiers => "a table of tiers by name",
            Form::Tier => "a limit such as \"100/min burst 20\", or a table of limits by name,",
        })?;
        write!(f, " for {}", self.place)
    }

    fn visit_str<E: FormatError>(self, text: &str) -> Result<Node, E> {
        let node = Node::Text(text.into());
        match self.form {
            Form::Name => Ok(node),
            Form::Policy | Form::Limit | Form::Tier => match Written::parse(text) {
                Ok(_) => Ok(node),
                Err(error) => Err(E::custom(in_place(&self.place, &error))),
            },
            _ => Err(E::invalid_type(Unexpected::Str(text), &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Node, A::Error> {
        if matches!(self.form, Form::Name | Form::Limit) {
            return Err(A::Error::invalid_type(Unexpected::Map, &self));
        }
        let mut table = Vec::new();
        loop {
            let read = |key: &str| self.value(key, &table).map(|value| (key.to_owned(), value));
            let Some((key, value)) = map.next_key_seed(Text { expected: "a name", read })? else {
                return Ok(Node::Table(table));
            };
            let node = map.next_value_seed(value)?;
            if let (Form::Alone, "name") = (self.form, &*key) {
                self.place = policy_of(Some(node.text()));
            }
            table.push((key, node));
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
fn entry(name: Option<&str>, node: &Node) -> Result<Entry, String> {
    let name = name.or_else(|| node.get("name").map(Node::text));
    let name = name.ok_or("a policy has no name; add the field name")?;
    let place = policy_of(Some(name));
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

fn policy_of(name: Option<&str>) -> String {
    name.map_or("policy".into(), |name| format!("policy {:?}", excerpt(name)))
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
