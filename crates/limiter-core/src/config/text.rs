//! Texts that are read on the spot, so that a format's error tells where they stand.

use core::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, Visitor};

/// Reads a text by a function.
pub(super) struct Text<E, F> {
    /// What stands here, for the error about something else.
    pub(super) expected: E,
    pub(super) read: F,
}

impl<'de, E, F, T, R> DeserializeSeed<'de> for Text<E, F>
where
    E: fmt::Display,
    F: FnOnce(&str) -> Result<T, R>,
    R: fmt::Display,
{
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<E, F, T, R> Visitor<'_> for Text<E, F>
where
    E: fmt::Display,
    F: FnOnce(&str) -> Result<T, R>,
    R: fmt::Display,
{
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expected.fmt(f)
    }

    fn visit_str<U: Error>(self, text: &str) -> Result<T, U> {
        (self.read)(text).map_err(U::custom)
    }
}
