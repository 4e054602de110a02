//! Sends each call to the node that serves its slot.

use std::{
    sync::{
        Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use fred::types::config::Server;
use tokio::runtime::Handle;

use super::{
    map::Map,
    member::{Member, Members},
    ranges::Slots,
};
use crate::client::{
    ScriptCall, ScriptReply,
    command::Command,
    faults::{CallError, Fault},
    fred::start::{ASKING, NodeSettings, RECONNECT_DELAY},
    last_failure::LastFailure,
    slot,
};

/// How many times a call is redirected. The nodes before the last did not execute it.
const MAX_REDIRECTIONS: usize = 16;

/// How long a node may take to return the slots, because others can be asked.
const SLOTS_TIMEOUT: Duration = Duration::from_millis(250);

/// The time between two attempts to get the slots when the connection is made.
const AGAIN_AFTER: Duration = Duration::from_millis(10);

/// The nodes of a cluster, and which slots they serve.
pub(crate) struct Cluster {
    runtime: Handle,
    members: Members,
    map: RwLock<Map>,
    last_failure: Arc<LastFailure>,
    /// Whether a refresh of the slots is under way.
    is_refreshing: AtomicBool,
    refreshed_at: Mutex<Option<Instant>>,
    /// Selects the next node, round robin.
    turn: AtomicUsize,
}

impl Cluster {
    pub(crate) fn new(settings: NodeSettings, seeds: Vec<Server>) -> Arc<Self> {
        Arc::new(Self {
            runtime: settings.runtime.clone(),
            last_failure: Arc::clone(&settings.last_failure),
            members: Members::new(settings, seeds),
            map: RwLock::default(),
            is_refreshing: AtomicBool::new(false),
            refreshed_at: Mutex::default(),
            turn: AtomicUsize::new(0),
        })
    }

    /// Waits until the slots are known and their nodes are connected, for `within` at most.
    pub(crate) async fn connected(&self, within: Duration) {
        let connected = async {
            while !self.refresh().await {
                tokio::time::sleep(AGAIN_AFTER).await;
            }
            // Waits as long for a node that is unreachable.
            for member in self.primaries() {
                member.node.connected(within).await;
            }
        };
        drop(tokio::time::timeout(within, connected).await);
    }

    pub(crate) async fn run(
        self: &Arc<Self>,
        call: &ScriptCall,
        within: Duration,
    ) -> Result<ScriptReply, CallError> {
        let start = Instant::now();
        let slot = slot(call.keys.first().map_or(&[][..], |key| key));
        let command = Command::from(call);
        let Some(mut member) = self.read().primary(slot) else {
            self.start_refresh();
            let why = self.last_failure.not_connected();
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
            let error = match node.run(first, command.clone(), left).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let Some(redirect) = error.redirect.clone() else {
                self.refresh_after(&error);
                return Err(error);
            };
            let named = self.members.named(&redirect.to, &member);
            if !redirect.is_asking {
                self.start_refresh();
                self.write().moved(slot, &named);
            }
            (member, is_asking, last) = (named, redirect.is_asking, Some(error));
        }
        Err(last.unwrap_or_else(|| {
            CallError::new(Fault::NoTime, "no time was left to send the call to its node")
        }))
    }

    /// Returns the node that serves a key, if it is known.
    pub(crate) fn member_of(&self, key: &[u8]) -> Option<Arc<Member>> {
        self.read().primary(slot(key))
    }

    /// Returns why no node is known.
    pub(crate) fn not_connected(&self) -> String {
        self.last_failure.not_connected()
    }

    /// Returns the nodes that serve slots.
    pub(crate) fn primaries(&self) -> Vec<Arc<Member>> {
        self.read().primaries()
    }

    /// Refreshes the slots if a node may have been replaced by another one.
    fn refresh_after(self: &Arc<Self>, error: &CallError) {
        use Fault::{InvalidReply, NoReply, NotPrimary, NotSent};
        if matches!(error.fault(), NoReply | NotSent | NotPrimary | InvalidReply) {
            self.start_refresh();
        }
    }

    /// Refreshes the slots in a task, unless one is under way or has just ended.
    fn start_refresh(self: &Arc<Self>) {
        let last = *self.refreshed_at.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|last| last.elapsed() < RECONNECT_DELAY)
            || self.is_refreshing.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let cluster = Arc::clone(self);
        drop(self.runtime.spawn(async move {
            cluster.refresh().await;
            cluster.is_refreshing.store(false, Ordering::Release);
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
        let is_known = |seed: &Arc<Member>| known.iter().any(|member| Arc::ptr_eq(member, seed));
        let seeds = self.members.seeds().filter(|seed| !is_known(seed));
        let epoch = self.read().epoch;
        let mut newest: Option<Slots> = None;
        for member in known.iter().cloned().chain(seeds) {
            match member.slots(SLOTS_TIMEOUT).await {
                Ok(slots) => {
                    let is_older = slots.epoch < epoch;
                    if newest.as_ref().is_none_or(|newest| newest.epoch < slots.epoch) {
                        newest = Some(slots);
                    }
                    if !is_older {
                        break;
                    }
                }
                Err(why) => self.last_failure.set(&why),
            }
        }
        // So that a node that serves no slot any more is not in use.
        drop(known);
        if let Some(slots) = &newest {
            self.replace(epoch, slots);
            self.last_failure.clear();
        }
        *self.refreshed_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
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
        self.members.forget_unused();
    }

    fn read(&self) -> RwLockReadGuard<'_, Map> {
        // No operation under the lock can leave it half done.
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Map> {
        self.map.write().unwrap_or_else(PoisonError::into_inner)
    }
}
