//! Quotas and algorithms as texts, and costs as numbers.

use core::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, Unexpected, Visitor},
};

use super::seed::Text;
use crate::{Algorithm, Cost, Quota};

macro_rules! as_text {
    ($($type:ty, $expected:literal;)*) => {$(
        /// A text: see its notation.
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let read = |text: &str| text.parse::<Self>();
                deserializer.deserialize_str(Text { expected: $expected, read })
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
        f.write_str("a whole number of permits, at least 1")
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
