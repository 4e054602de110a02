//! Writes policies, in the shortest form that reads back as the same policies.

use alloc::{collections::BTreeMap, string::String, vec, vec::Vec};

use serde::{Serialize, Serializer};

use super::{Policies, inherited};
use crate::{Limit, Policy, notation::LimitText};

impl Serialize for Policies {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let node = |(name, policy)| (name, node(policy, self.tiers.get(name)));
        serializer.collect_map(self.policies.iter().map(node))
    }
}

enum Node<'a> {
    Limit(LimitText),
    Table(Vec<(&'a str, Node<'a>)>),
}

impl Serialize for Node<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Limit(text) => serializer.collect_str(text),
            Self::Table(table) => {
                serializer.collect_map(table.iter().map(|(key, node)| (key, node)))
            }
        }
    }
}

fn node<'a>(policy: &'a Policy, tiers: Option<&'a BTreeMap<String, Policy>>) -> Node<'a> {
    let own = limits(policy, None);
    let field = match own {
        Node::Limit(_) if tiers.is_none() => return own,
        Node::Limit(_) => "limit",
        Node::Table(_) => "limits",
    };
    let mut table = vec![(field, own)];
    if let Some(tiers) = tiers {
        let tiers = tiers.iter().map(|(name, tier)| (&**name, limits(tier, Some(policy))));
        table.push(("tiers", Node::Table(tiers.collect())));
    }
    Node::Table(table)
}

/// Returns the limits of a policy or a tier, without algorithms that reading would assume. The only
/// limit is written without its name if it has the policy's name.
fn limits<'a>(policy: &'a Policy, tier_of: Option<&Policy>) -> Node<'a> {
    let text = |limit: &Limit| Node::Limit(LimitText::of(limit, inherited(tier_of, limit.name())));
    match policy.limits() {
        [limit] if limit.name() == policy.name() => text(limit),
        limits => Node::Table(limits.iter().map(|limit| (limit.name(), text(limit))).collect()),
    }
}
