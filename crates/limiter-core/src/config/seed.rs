//! Readers of texts, limits and tables, each of which knows where in the file it is.
//!
//! A format reports the place of an error that a reader returns, so texts are parsed while they are
//! read and not afterwards.

use alloc::{format, string::String, vec::Vec};
use core::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Unexpected, Visitor};

use crate::{error::excerpt, notation::Written};

/// Reads what the file has at this place.
pub(super) struct Seed<V>(pub(super) V);

impl<'de, V: Visitor<'de>> DeserializeSeed<'de> for Seed<V> {
    type Value = V::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        deserializer.deserialize_any(self.0)
    }
}

/// Reads a text by a function.
pub(super) struct Text<F> {
    /// What is expected, for the error about a value of another type.
    pub(super) expected: &'static str,
    pub(super) read: F,
}

impl<F, T, R> Visitor<'_> for Text<F>
where
    F: FnOnce(&str) -> Result<T, R>,
    R: fmt::Display,
{
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.read)(text).map_err(E::custom)
    }
}

/// Reads a table, each value by the reader that `value` returns for its name.
pub(super) struct Table<F> {
    pub(super) expected: String,
    pub(super) value: F,
}

impl<'de, F, S> Visitor<'de> for Table<F>
where
    F: FnMut(&str) -> S,
    S: Visitor<'de>,
{
    type Value = Vec<(String, S::Value)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.expected)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = map.next_value_seed(Seed((self.value)(&name)))?;
            values.push((name, value));
        }
        Ok(values)
    }
}

/// Limits as they were read, by name. The only limit of a policy has none.
pub(super) type NamedLimits = Vec<(Option<String>, Written)>;

/// Reads the limits of a policy or a tier: one as a text, several as a table by name.
pub(super) struct Limits {
    /// What they belong to, such as `policy "login"`.
    pub(super) place: String,
    pub(super) form: Form,
}

/// Whether limits are a text or a table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Table,
    Any,
}

impl<'de> Visitor<'de> for Limits {
    type Value = NamedLimits;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.form {
            Form::Text => "a limit such as \"100/min burst 20\"",
            Form::Table => "a table of limits by name",
            Form::Any => "a limit such as \"100/min burst 20\", or a table of limits by name,",
        })?;
        write!(f, " for {}", self.place)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        if self.form == Form::Table {
            return Err(E::invalid_type(Unexpected::Str(text), &self));
        }
        let limit = Written::parse(text);
        let limit = limit.map_err(|error| E::custom(format!("{}: {error}", self.place)))?;
        Ok([(None, limit)].into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        if self.form == Form::Text {
            return Err(A::Error::invalid_type(Unexpected::Map, &self));
        }
        let mut limits = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            let place = limit_of(&self.place, &name);
            let limit = map.next_value_seed(Seed(Self { place, form: Form::Text }))?;
            limits.extend(limit.into_iter().map(|(_, limit)| (Some(name.clone()), limit)));
        }
        Ok(limits)
    }
}

/// Returns where a limit is.
pub(super) fn limit_of(place: &str, name: &str) -> String {
    format!("limit {:?} of {place}", excerpt(name))
}
