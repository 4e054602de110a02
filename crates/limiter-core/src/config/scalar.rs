//! Quotas and kinds as texts, and costs as numbers.

use core::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeSeed, Error, Unexpected, Visitor},
};

use super::text::Text;
use crate::{Cost, Kind, Quota};

/// As a text: see [`Quota`'s notation](Quota#notation).
impl<'de> Deserialize<'de> for Quota {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a quota, as in \"100/min burst 20\"";
        Text { expected, read: |text: &str| text.parse::<Self>() }.deserialize(deserializer)
    }
}

impl Serialize for Quota {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// As a text: see [`Kind`'s notation](Kind#notation).
impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "an algorithm, as in \"sliding-log\"";
        Text { expected, read: |text: &str| text.parse::<Self>() }.deserialize(deserializer)
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// As a number.
impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_u64(Permits)
    }
}

impl Serialize for Cost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.get())
    }
}

struct Permits;

impl Visitor<'_> for Permits {
    type Value = Cost;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of permits, at least 1")
    }

    fn visit_u64<E: Error>(self, permits: u64) -> Result<Cost, E> {
        Cost::new(permits).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, permits: i64) -> Result<Cost, E> {
        let unsigned = u64::try_from(permits);
        let unsigned =
            unsigned.map_err(|_| E::invalid_value(Unexpected::Signed(permits), &self))?;
        self.visit_u64(unsigned)
    }
}
