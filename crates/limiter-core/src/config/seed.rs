//! Readers of texts, limits and tables, each of which knows where in the file it is.
//!
//! A format reports the place of an error that a reader returns, so texts are parsed while they are
//! read and not afterwards.

use alloc::{format, string::String, vec::Vec};
use core::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};

use crate::{error::excerpt, notation::Written};

/// Reads a text by a function.
pub(super) struct Text<F> {
    /// What is expected, for the error about a value of another type.
    pub(super) expected: String,
    pub(super) read: F,
}

impl<'de, F, T, R> DeserializeSeed<'de> for Text<F>
where
    F: FnOnce(&str) -> Result<T, R>,
    R: fmt::Display,
{
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<F, T, R> Visitor<'_> for Text<F>
where
    F: FnOnce(&str) -> Result<T, R>,
    R: fmt::Display,
{
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.expected)
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

impl<'de, F, S> DeserializeSeed<'de> for Table<F>
where
    F: FnMut(&str) -> S,
    S: DeserializeSeed<'de>,
{
    type Value = Vec<(String, S::Value)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, F, S> Visitor<'de> for Table<F>
where
    F: FnMut(&str) -> S,
    S: DeserializeSeed<'de>,
{
    type Value = Vec<(String, S::Value)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.expected)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = map.next_value_seed((self.value)(&name))?;
            values.push((name, value));
        }
        Ok(values)
    }
}

/// The limits of a policy or a tier as they were read.
pub(super) enum Limits {
    One(Written),
    ByName(Vec<(String, Written)>),
}

/// Reads one limit. `place` is what it belongs to, such as `policy "login"`.
pub(super) fn limit(place: String) -> impl for<'de> DeserializeSeed<'de, Value = Written> {
    Text {
        expected: format!("a limit such as \"100/min burst 20\" for {place}"),
        read: move |text: &str| Written::parse(text).map_err(|error| format!("{place}: {error}")),
    }
}

/// Reads limits by name.
pub(super) fn limits(
    place: String,
) -> impl for<'de> DeserializeSeed<'de, Value = Vec<(String, Written)>>
+ for<'de> Visitor<'de, Value = Vec<(String, Written)>> {
    Table {
        expected: format!("a table of limits by name for {place}"),
        value: move |name: &str| limit(format!("limit {:?} of {place}", excerpt(name))),
    }
}

/// Reads tiers by name.
pub(super) fn tiers(
    place: String,
) -> impl for<'de> DeserializeSeed<'de, Value = Vec<(String, Limits)>> {
    Table {
        expected: format!("a table of tiers by name for {place}"),
        value: move |name: &str| Tier { place: format!("tier {:?} of {place}", excerpt(name)) },
    }
}

/// Reads a tier's limit, or its limits by name.
struct Tier {
    place: String,
}

impl<'de> DeserializeSeed<'de> for Tier {
    type Value = Limits;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Limits, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tier {
    type Value = Limits;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = &self.place;
        write!(f, "a limit such as \"100/min burst 20\", or a table of limits by name, for {place}")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Limits, E> {
        let place = &self.place;
        let limit = Written::parse(text).map_err(|error| E::custom(format!("{place}: {error}")))?;
        Ok(Limits::One(limit))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Limits, A::Error> {
        limits(self.place).visit_map(map).map(Limits::ByName)
    }
}
