//! Limits and tiers as they are written, and where.

use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

use serde::{
    Deserializer,
    de::{DeserializeSeed, Error as FormatError, MapAccess, Visitor},
};

use super::text::Text;
use crate::{Error, ErrorKind, Kind, Policy, Quota, notation::parse_limit};

/// A limit as it is written: perhaps without its kind.
pub(super) type Limit = (Quota, Option<Kind>);

/// The limits of a policy or a tier as they are written.
pub(super) enum Written {
    One(Limit),
    ByName(Vec<(String, Limit)>),
}

impl Written {
    /// Returns the policy, or the tier, called `name`, where `kind` tells the kind of a limit that
    /// was written without one, or why there is none.
    pub(super) fn policy(
        self,
        name: &str,
        place: Place<'_>,
        kind: impl Fn(Option<&str>) -> Result<Kind, String>,
    ) -> Result<Policy, String> {
        let one = |name: &str, place: Place<'_>, (quota, written): Limit| {
            let kind = written.map_or_else(|| kind(place.limit), Ok);
            let kind = kind.map_err(|fault| place.say(&fault))?;
            Policy::new(name, kind, quota).map_err(|error| place.say_error(&error))
        };
        match self {
            Self::One(limit) => one(name, place, limit),
            Self::ByName(limits) => {
                let limits = limits
                    .into_iter()
                    .map(|(name, limit)| one(&name, Place { limit: Some(&name), ..place }, limit));
                let limits = limits.collect::<Result<Vec<_>, _>>()?;
                Policy::several(name, limits).map_err(|error| place.say_error(&error))
            }
        }
    }
}

/// Of what the text at hand tells.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) policy: Option<&'a str>,
    pub(super) tier: Option<&'a str>,
    pub(super) limit: Option<&'a str>,
}

impl Place<'_> {
    /// Returns how the text of this limit is read.
    pub(super) fn text(self) -> Text<String, impl FnOnce(&str) -> Result<Limit, String>> {
        let expected = format!("a limit as in \"100/min burst 20\" for {self}");
        Text { expected, read: move |text: &str| self.read(text) }
    }

    pub(super) fn read(self, text: &str) -> Result<Limit, String> {
        parse_limit(text).map_err(|error| self.say_error(&error))
    }

    pub(super) fn say(self, fault: &dyn fmt::Display) -> String {
        format!("{self}: {fault}")
    }

    /// Says where the error is, unless it names the policy itself.
    pub(super) fn say_error(self, error: &Error) -> String {
        let message = error.to_string();
        let names = |policy| message.contains(&format!("policy {policy:?}"));
        let is_whole = self.tier.is_none() && self.limit.is_none();
        let is_name = is_whole && error.kind() == ErrorKind::InvalidName;
        if is_name || self.policy.is_some_and(names) { message } else { self.say(&message) }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(limit) = self.limit {
            write!(f, "the limit {limit:?} of ")?;
        }
        if let Some(tier) = self.tier {
            write!(f, "the tier {tier:?} of ")?;
        }
        match self.policy {
            Some(policy) => write!(f, "the policy {policy:?}"),
            None => f.write_str("the policy"),
        }
    }
}

/// Reads limits by name.
pub(super) struct Limits<'a>(pub(super) Place<'a>);

impl<'de> DeserializeSeed<'de> for Limits<'_> {
    type Value = Written;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Written, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Limits<'_> {
    type Value = Written;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a table of limits by name for {}", self.0)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Written, A::Error> {
        let mut limits = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            let limit = Place { limit: Some(&name), ..self.0 }.text();
            let limit = map.next_value_seed(limit)?;
            limits.push((name, limit));
        }
        Ok(Written::ByName(limits))
    }
}

/// Reads tiers by name.
pub(super) struct Tiers<'a>(pub(super) Place<'a>);

impl<'de> DeserializeSeed<'de> for Tiers<'_> {
    type Value = Vec<(String, Written)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Tiers<'_> {
    type Value = Vec<(String, Written)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a table of tiers by name for {}", self.0)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut tiers = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            let tier = map.next_value_seed(Tier(Place { tier: Some(&name), ..self.0 }))?;
            tiers.push((name, tier));
        }
        Ok(tiers)
    }
}

/// Reads a tier's limit, or its limits by name.
struct Tier<'a>(Place<'a>);

impl<'de> DeserializeSeed<'de> for Tier<'_> {
    type Value = Written;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Written, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tier<'_> {
    type Value = Written;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a limit as in \"100/min burst 20\", or a table of limits by name, for {}",
            self.0
        )
    }

    fn visit_str<E: FormatError>(self, text: &str) -> Result<Written, E> {
        self.0.read(text).map(Written::One).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Written, A::Error> {
        Limits(self.0).visit_map(map)
    }
}
