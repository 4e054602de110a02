//! Writes policies, in the shortest form that reads back as the same policies.

use alloc::{string::String, vec, vec::Vec};

use serde::{Serialize, Serializer};

use super::{Entry, Policies, inherited};
use crate::{Limit, Policy, notation::LimitText};

impl Serialize for Policies {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, entry)| (name, node(entry))))
    }
}

enum Node {
    Limit(LimitText),
    Table(Vec<(String, Node)>),
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Limit(text) => serializer.collect_str(text),
            Self::Table(table) => {
                serializer.collect_map(table.iter().map(|(key, node)| (key, node)))
            }
        }
    }
}

fn node(Entry { policy, tiers }: &Entry) -> Node {
    let own = limits(policy, None);
    let field = match own {
        Node::Limit(_) if tiers.is_empty() => return own,
        Node::Limit(_) => "limit",
        Node::Table(_) => "limits",
    };
    let mut table = vec![(field.into(), own)];
    if !tiers.is_empty() {
        let tiers = tiers.iter().map(|(name, tier)| (name.clone(), limits(tier, Some(policy))));
        table.push(("tiers".into(), Node::Table(tiers.collect())));
    }
    Node::Table(table)
}

/// Returns the limits of a policy or a tier, without algorithms that reading would assume. The only
/// limit is written without its name if that is the policy's.
fn limits(policy: &Policy, tier_of: Option<&Policy>) -> Node {
    let text = |limit: &Limit| Node::Limit(LimitText::of(limit, inherited(tier_of, limit.name())));
    match policy.limits() {
        [limit] if limit.name() == policy.name() => text(limit),
        limits => Node::Table(limits.iter().map(|l| (l.name().into(), text(l))).collect()),
    }
}
