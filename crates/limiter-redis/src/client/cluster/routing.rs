//! Sends each call to the node that serves its slot.

use std::{
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use fred::types::config::Server;
use tokio::sync::Mutex;

use super::member::{Member, Members, SLOTS, Slots};
use crate::client::{
    ScriptCall, ScriptReply,
    circuit_breaker::CircuitBreaker,
    faults::{CallError, Fault},
    fred::{
        command,
        start::{ASKING, RECONNECT_DELAY},
    },
    node::{Command, Connect, LastFailure, Node as _},
    slot,
};

/// How many times a call is redirected. The nodes before the last did not execute it.
const MAX_REDIRECTIONS: usize = 16;

/// How long a node may take to return the slots, because others can be asked.
const SLOTS_TIMEOUT: Duration = Duration::from_millis(250);

/// The time between two attempts to get the slots when the connection is made.
const AGAIN_AFTER: Duration = Duration::from_millis(10);

/// The nodes of a cluster, and which slots they serve.
pub(crate) struct Cluster<C: Connect> {
    members: Members<C>,
    breaker: CircuitBreaker,
    map: RwLock<Map<C::Node>>,
    /// When the last refresh of the slots in a task ended. Locked while one is under way.
    refreshed_at: Arc<Mutex<Option<Instant>>>,
    /// Selects the node to call first, round robin: one that is partitioned must not always be the first, because
    /// its map may be as new as the one in use, and older than that of the others.
    turn: AtomicUsize,
}

impl<C: Connect> Cluster<C> {
    pub(crate) fn new(connect: C, seeds: Vec<Server>, breaker: CircuitBreaker) -> Arc<Self> {
        let members = Members::new(connect, seeds);
        Arc::new(Self {
            members,
            breaker,
            map: RwLock::default(),
            refreshed_at: Arc::default(),
            turn: AtomicUsize::new(0),
        })
    }

    /// Waits until the slots are known and their nodes are connected.
    pub(crate) async fn connected(&self) {
        while !self.refresh().await {
            tokio::time::sleep(AGAIN_AFTER).await;
        }
        for member in self.primaries() {
            member.node.connected().await;
        }
    }

    pub(crate) async fn run(
        self: &Arc<Self>,
        call: &ScriptCall,
        within: Duration,
    ) -> Result<ScriptReply, CallError> {
        let start = Instant::now();
        let key = call.keys.first().map_or(&[][..], |key| key);
        let command = Command::from(call);
        // The slot of the key has been computed to find the number.
        let numbered = call.server.and_then(|number| self.read().numbered(number));
        let Some(mut member) = numbered.or_else(|| self.member_of(key)) else {
            self.start_refresh();
            let why = self.not_connected();
            let message = format!("no known node serves the slot of the key: {why}");
            return Err(CallError::new(Fault::NotSent, message));
        };
        let mut is_asking = false;
        let mut last = None;
        for _ in 0..=MAX_REDIRECTIONS {
            let left = within.saturating_sub(start.elapsed());
            if left.is_zero() {
                break;
            }
            let (node, first) =
                if is_asking { (member.asking(), Some(ASKING)) } else { (&*member.node, None) };
            let error = match node.run(first, command.clone(), left, command::reply).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let Some(redirect) = error.redirect.clone() else {
                use Fault::{ErrorReply, InvalidReply, NoReply, NotPrimary, NotSent};
                // The node may have been replaced by another one. `CLUSTERDOWN` is an error reply.
                if matches!(
                    error.fault(),
                    NoReply | NotSent | NotPrimary | InvalidReply | ErrorReply
                ) {
                    self.start_refresh();
                }
                let called = last.is_some().then(|| (member.number, Arc::clone(&member.name)));
                return Err(error.by(called));
            };
            let named = self.members.named(&redirect.to, &member);
            if !redirect.is_asking {
                self.start_refresh();
                self.write().moved(slot(key), &named);
            }
            (member, is_asking, last) = (named, redirect.is_asking, Some(error));
        }
        Err(last.unwrap_or_else(|| {
            CallError::new(Fault::NoTime, "no time was left to send the call to its node")
        }))
    }

    /// Returns the node that serves a key, if it is known.
    pub(crate) fn member_of(&self, key: &[u8]) -> Option<Arc<Member<C::Node>>> {
        self.read().primary(slot(key))
    }

    /// Returns why no node is known.
    pub(crate) fn not_connected(&self) -> String {
        self.last_failure().not_connected()
    }

    fn last_failure(&self) -> &LastFailure {
        self.members.connect.last_failure()
    }

    /// Returns the nodes that serve slots.
    pub(crate) fn primaries(&self) -> Vec<Arc<Member<C::Node>>> {
        self.read().primaries()
    }

    /// Refreshes the slots in a task, unless one is under way or has just ended.
    fn start_refresh(self: &Arc<Self>) {
        let Ok(mut refreshed_at) = Arc::clone(&self.refreshed_at).try_lock_owned() else { return };
        if refreshed_at.is_some_and(|at| at.elapsed() < RECONNECT_DELAY) {
            return;
        }
        let cluster = Arc::clone(self);
        drop(self.members.connect.runtime().spawn(async move {
            cluster.refresh().await;
            *refreshed_at = Some(Instant::now());
        }));
    }

    /// Asks the nodes one after the other until one returns slots that are not older than those in use, and returns
    /// whether any did.
    ///
    /// Older ones, such as those of a partitioned node, count if all other nodes return older ones too or
    /// fail: the epochs of a cluster that is created again begin anew.
    async fn refresh(&self) -> bool {
        let mut known = self.primaries();
        let first = self.turn.fetch_add(1, Ordering::Relaxed) % known.len().max(1);
        known.rotate_left(first);
        known.retain(|member| member.node.is_connected());
        let is_known =
            |seed: &Arc<Member<C::Node>>| known.iter().any(|member| Arc::ptr_eq(member, seed));
        let seeds = self.members.seeds().filter(|seed| !is_known(seed));
        let epoch = self.read().epoch;
        let mut newest: Option<Slots> = None;
        for member in known.iter().cloned().chain(seeds) {
            match member.slots(SLOTS_TIMEOUT).await {
                Ok(slots) => {
                    let is_older = slots.epoch < epoch;
                    newest = newest.into_iter().chain([slots]).max_by_key(|slots| slots.epoch);
                    if !is_older {
                        break;
                    }
                }
                Err(error) => self.last_failure().set(&error.to_string()),
            }
        }
        // So that a node that serves no slot any more is not in use.
        drop(known);
        if let Some(slots) = &newest {
            self.replace(epoch, slots);
            self.last_failure().clear();
        }
        newest.is_some()
    }

    /// Replaces the map of `epoch`, unless another refresh has replaced it by a newer one than `slots`.
    fn replace(&self, epoch: u64, slots: &Slots) {
        let new = Map::new(slots, |server| self.members.get(server));
        let mut map = self.write();
        if map.epoch <= epoch.max(slots.epoch) {
            *map = new;
        }
        drop(map);
        for unused in self.members.forget_unused() {
            self.breaker.forget(&(unused.number, Arc::clone(&unused.name)));
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Map<C::Node>> {
        // No operation under the lock can leave it half done.
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Map<C::Node>> {
        self.map.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The node of each slot.
struct Map<N> {
    /// By slot, if a node serves it.
    slots: Vec<Option<Arc<Member<N>>>>,
    primaries: Vec<Arc<Member<N>>>,
    /// That of [`Slots`], by which maps are compared.
    epoch: u64,
}

// Derived, it would need nodes to have a default.
impl<N> Default for Map<N> {
    fn default() -> Self {
        Self { slots: Vec::new(), primaries: Vec::new(), epoch: 0 }
    }
}

impl<N> Map<N> {
    fn new(said: &Slots, member: impl Fn(&Server) -> Arc<Member<N>>) -> Self {
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
    fn numbered(&self, number: usize) -> Option<Arc<Member<N>>> {
        self.primaries.iter().find(|member| member.number == number).cloned()
    }

    fn primary(&self, slot: u16) -> Option<Arc<Member<N>>> {
        self.slots.get(usize::from(slot))?.clone()
    }

    /// Records that another primary serves a slot.
    fn moved(&mut self, slot: u16, to: &Arc<Member<N>>) {
        if let Some(slot) = self.slots.get_mut(usize::from(slot)) {
            *slot = Some(Arc::clone(to));
        }
    }

    fn primaries(&self) -> Vec<Arc<Member<N>>> {
        self.primaries.clone()
    }
}
