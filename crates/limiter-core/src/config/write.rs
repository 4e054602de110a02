//! Writes policies, in the shortest form that reads back as the same policies.

use alloc::{collections::BTreeMap, vec};

use serde::{Serialize, Serializer};

use super::{Entry, Node, Policies, inherited};
use crate::{Limit, Policy, notation};

impl Serialize for Policies {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, entry)| (name, node(entry))))
    }
}

/// A table of one policy, by its name: see [`Policies`](crate::Policies).
impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entry = Entry { policy: self.clone(), tiers: BTreeMap::new() };
        serializer.collect_map([(self.name(), node(&entry))])
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Table(table) => {
                serializer.collect_map(table.iter().map(|(key, node)| (key, node)))
            }
        }
    }
}

fn node(Entry { policy, tiers }: &Entry) -> Node {
    let (field, own) = limits(policy, None);
    if tiers.is_empty() && field == "limit" {
        return own;
    }
    let mut table = vec![(field.into(), own)];
    if !tiers.is_empty() {
        let limits = |tier| limits(tier, Some(policy)).1;
        let tiers = tiers.iter().map(|(name, tier)| (name.clone(), limits(tier)));
        table.push(("tiers".into(), Node::Table(tiers.collect())));
    }
    Node::Table(table)
}

/// Returns the field `limit` or `limits` of a policy or a tier, without an algorithm that reading
/// would assume. The only limit is written without its name if that is the policy's.
fn limits(policy: &Policy, tier_of: Option<&Policy>) -> (&'static str, Node) {
    let algorithm = |limit: &Limit| inherited(tier_of, limit.name());
    let text = |limit: &Limit| Node::Text(notation::text(limit, algorithm(limit)));
    match policy.limits() {
        [limit] if limit.name() == policy.name() => ("limit", text(limit)),
        limits => {
            let limits = limits.iter().map(|limit| (limit.name().into(), text(limit)));
            ("limits", Node::Table(limits.collect()))
        }
    }
}
