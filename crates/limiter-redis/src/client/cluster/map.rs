//! Which node of a cluster serves which slot, with the connection to it.

use std::sync::Arc;

use fred::types::config::Server;

use super::member::{Member, SLOTS, Slots};

/// The node of each slot.
pub(crate) struct Map<N> {
    /// By slot, if a node serves it.
    slots: Vec<Option<Arc<Member<N>>>>,
    primaries: Vec<Arc<Member<N>>>,
    /// That of [`Slots`], by which maps are compared.
    pub(crate) epoch: u64,
}

// Derived, it would need nodes to have a default.
impl<N> Default for Map<N> {
    fn default() -> Self {
        Self { slots: Vec::new(), primaries: Vec::new(), epoch: 0 }
    }
}

impl<N> Map<N> {
    pub(crate) fn new(said: &Slots, member: impl Fn(&Server) -> Arc<Member<N>>) -> Self {
        let mut map = Self { slots: vec![None; SLOTS], primaries: Vec::new(), epoch: said.epoch };
        for range in &said.ranges {
            let primary = member(&range.primary);
            for slot in map.slots.get_mut(range.first..=range.last).unwrap_or_default() {
                *slot = Some(Arc::clone(&primary));
            }
            if !map.primaries.iter().any(|known| Arc::ptr_eq(known, &primary)) {
                map.primaries.push(primary);
            }
        }
        map
    }

    /// Returns the primary with a number.
    pub(crate) fn numbered(&self, number: usize) -> Option<Arc<Member<N>>> {
        self.primaries.iter().find(|member| member.number == number).cloned()
    }

    pub(crate) fn primary(&self, slot: u16) -> Option<Arc<Member<N>>> {
        self.slots.get(usize::from(slot))?.clone()
    }

    /// Records that another primary serves a slot.
    pub(crate) fn moved(&mut self, slot: u16, to: &Arc<Member<N>>) {
        if let Some(slot) = self.slots.get_mut(usize::from(slot)) {
            *slot = Some(Arc::clone(to));
        }
    }

    pub(crate) fn primaries(&self) -> Vec<Arc<Member<N>>> {
        self.primaries.clone()
    }
}
