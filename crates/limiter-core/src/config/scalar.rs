//! Quotas and algorithms as texts, and costs as numbers.

use core::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeSeed, Error, Visitor},
};

use crate::{Algorithm, Cost, Quota};

/// Reads a text by a function, so that the format reports the place of an error.
pub(super) struct Text<F> {
    /// What is expected, for the error about a value of another type.
    pub(super) expected: &'static str,
    pub(super) read: F,
}

impl<'de, F> DeserializeSeed<'de> for Text<F>
where
    Self: Visitor<'de>,
{
    type Value = <Self as Visitor<'de>>::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<T, R: fmt::Display, F: FnOnce(&str) -> Result<T, R>> Visitor<'_> for Text<F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.read)(text).map_err(E::custom)
    }
}

macro_rules! as_text {
    ($($type:ty, $expected:literal;)*) => {$(
        /// A text: see its notation.
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Text { expected: $expected, read: str::parse::<Self> }.deserialize(deserializer)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    )*};
}

as_text! {
    Quota, "a quota such as \"100/min burst 20\"";
    Algorithm, "an algorithm such as \"sliding-log\"";
}

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
