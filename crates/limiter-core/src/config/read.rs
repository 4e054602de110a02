//! Reads policies.
//!
//! A file is read as a list of limits, each at a path of keys such as `login.tiers.staff`. A format
//! adds the place to an error that is returned while it reads a value, so the text of a limit and the
//! whole of a policy are checked at once.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    vec,
    vec::Vec,
};
use core::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, MapAccess, Visitor},
};

use super::{Policies, inherited};
use crate::{Policy, error::excerpt, notation::LimitText};

impl<'de> Deserialize<'de> for Policies {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A map, so that an empty document has no policies.
        let limits = deserializer.deserialize_map(Reader { keys: Vec::new() })?;
        policies(&limits).map_err(D::Error::custom)
    }
}

/// A limit as a file has it.
struct FileLimit {
    path: String,
    policy: String,
    tier: Option<String>,
    name: String,
    text: LimitText,
}

/// Returns the policies of these limits, or the fault and its path.
fn policies(limits: &[FileLimit]) -> Result<Policies, String> {
    // In this order, the limits of a policy precede those of its tiers.
    let mut groups = BTreeMap::<_, Vec<_>>::new();
    for limit in limits {
        groups.entry((&limit.policy, &limit.tier)).or_default().push(limit);
    }
    groups.into_iter().try_fold(Policies::default(), |all, ((name, tier), limits)| {
        let tier_of = all.get(name);
        let limits = limits.into_iter().map(|limit| {
            let read = limit.text.limit(&limit.name, inherited(tier_of, &limit.name));
            read.map_err(|error| format!("{:?}: {error}", limit.path))
        });
        let limits = limits.collect::<Result<_, _>>()?;
        let policy = Policy::from_limits(tier.as_ref().unwrap_or(name), limits);
        let (path, all) = match tier {
            None => (name.clone(), policy.and_then(|policy| all.with(policy))),
            Some(tier) => {
                let all = policy.and_then(|policy| all.with_tier(name, policy));
                (format!("{name}.tiers.{tier}"), all)
            }
        };
        all.map_err(|error| format!("{:?}: {error}", excerpt(&path)))
    })
}

/// Reads all limits in the value at a path.
struct Reader<'a> {
    keys: Vec<&'a str>,
}

impl Reader<'_> {
    fn path(&self) -> String {
        excerpt(&self.keys.join(".")).into()
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Vec<FileLimit>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let is_policy = self.keys.len() == 1;
        let limits = deserializer.deserialize_any(self)?;
        if is_policy {
            policies(&limits).map_err(D::Error::custom)?;
        }
        Ok(limits)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Vec<FileLimit>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.keys.is_empty() {
            return f.write_str("a table of policies by name");
        }
        write!(f, "a limit such as \"100/min burst 20\", or a table, for {:?}", self.path())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        let path = self.path();
        let (policy, tier, name) = match *self.keys {
            [policy] | [policy, "limit"] => (policy, None, policy),
            [policy, "limits", name] => (policy, None, name),
            [policy, "tiers", tier] => (policy, Some(tier), tier),
            [policy, "tiers", tier, name] => (policy, Some(tier), name),
            _ => {
                let remedy = "use limit, limits.NAME, tiers.NAME or tiers.NAME.LIMIT";
                return Err(E::custom(format!("{path:?}: unexpected field; {remedy}")));
            }
        };
        let text = LimitText::parse(text);
        let text = text.map_err(|error| E::custom(format!("{path:?}: {error}")))?;
        let (policy, tier, name) = (policy.into(), tier.map(Into::into), name.into());
        Ok(vec![FileLimit { path, policy, tier, name, text }])
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut limits, mut names) = (Vec::new(), BTreeSet::new());
        while let Some(name) = map.next_key::<String>()? {
            let value = Reader { keys: [&*self.keys, &[&*name]].concat() };
            if names.contains(&name) {
                let path = value.path();
                return Err(A::Error::custom(format!("{path:?} is given twice; remove one")));
            }
            limits.extend(map.next_value_seed(value)?);
            names.insert(name);
        }
        let may_be_empty = matches!(*self.keys, [] | [_, "tiers"]);
        if limits.is_empty() && !may_be_empty {
            let fault = "it has no limit; add one, or remove the table";
            return Err(A::Error::custom(format!("{:?}: {fault}", self.path())));
        }
        Ok(limits)
    }
}
