//! Which node of a cluster serves which slot, with the connection to it.

use std::sync::Arc;

use fred::types::config::Server;

use super::{
    member::Member,
    ranges::{Range, SLOTS},
};

/// The nodes of each slot.
#[derive(Default)]
pub(crate) struct Map {
    /// By slot, if a node serves it.
    slots: Vec<Option<Arc<Shard>>>,
    shards: Vec<Arc<Shard>>,
}

struct Shard {
    primary: Arc<Member>,
    replicas: Vec<Arc<Member>>,
}

impl Map {
    pub(crate) fn new(
        ranges: &[Range],
        with_replicas: bool,
        member: impl Fn(&Server) -> Arc<Member>,
    ) -> Self {
        let mut map = Self { slots: vec![None; SLOTS], shards: Vec::new() };
        for range in ranges {
            let primary = member(&range.primary);
            let shard = map.known(&primary).unwrap_or_else(|| {
                let replicas = if with_replicas { range.replicas.as_slice() } else { &[] };
                let replicas = replicas.iter().map(&member).collect();
                let shard = Arc::new(Shard { primary, replicas });
                map.shards.push(Arc::clone(&shard));
                shard
            });
            for slot in map.slots.get_mut(range.first..=range.last).unwrap_or_default() {
                *slot = Some(Arc::clone(&shard));
            }
        }
        map
    }

    pub(crate) fn primary(&self, slot: u16) -> Option<Arc<Member>> {
        Some(Arc::clone(&self.shard(slot)?.primary))
    }

    /// Returns one of the replicas of a slot's primary, round robin.
    pub(crate) fn replica(&self, slot: u16, turn: usize) -> Option<Arc<Member>> {
        let replicas = &self.shard(slot)?.replicas;
        replicas.get(turn % replicas.len().max(1)).map(Arc::clone)
    }

    /// Records that another primary serves a slot. If it is new, its replicas are known after a refresh.
    pub(crate) fn moved(&mut self, slot: u16, to: &Arc<Member>) {
        let new = || Arc::new(Shard { primary: Arc::clone(to), replicas: Vec::new() });
        let shard = self.known(to).unwrap_or_else(new);
        if let Some(slot) = self.slots.get_mut(usize::from(slot)) {
            *slot = Some(shard);
        }
    }

    pub(crate) fn primaries(&self) -> Vec<Arc<Member>> {
        self.shards.iter().map(|shard| Arc::clone(&shard.primary)).collect()
    }

    pub(crate) fn members(&self) -> Vec<Arc<Member>> {
        let replicas = self.shards.iter().flat_map(|shard| &shard.replicas);
        self.primaries().into_iter().chain(replicas.cloned()).collect()
    }

    fn known(&self, primary: &Arc<Member>) -> Option<Arc<Shard>> {
        self.shards.iter().find(|shard| Arc::ptr_eq(&shard.primary, primary)).cloned()
    }

    fn shard(&self, slot: u16) -> Option<&Shard> {
        self.slots.get(usize::from(slot))?.as_deref()
    }
}
