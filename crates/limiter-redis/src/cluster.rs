//! A cluster: each node has a connection of its own, and calls follow the slots.
//!
//! The library has a client for clusters, but that one waits until every node is there, and
//! reads the reply to `ASKING` from a connection on which other replies are under way.

use std::{
    sync::{
        Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use fred::{
    types::config::{Config, Server},
    util::redis_keyslot,
};
use limiter_core::{Error, ErrorKind};

use crate::{
    client::{RunError, ScriptCall, ScriptReply},
    command::{self, Command},
    fred_client::First,
    log::OutageLog,
    member::{Member, Members},
    no_reply::{Heard, NoReply},
    node::{PATIENCE, RECONNECT_DELAY},
    slots::Map,
};

/// How often a call is sent on to another node. It was not executed by those before.
const MAX_REDIRECTIONS: usize = 16;

/// How long a node may take to tell the slots, when there are others to ask.
const TELLS_WITHIN: Duration = Duration::from_millis(250);

/// How long a cluster without replicas is taken to have none, since no node says that it got one.
const NEW_REPLICAS_AFTER: Duration = Duration::from_secs(10);

/// Between two attempts to learn the slots at first.
const AGAIN_AFTER: Duration = Duration::from_millis(10);

/// The nodes of a cluster, and which slots they serve.
pub(crate) struct Cluster {
    members: Members,
    replica_reads: bool,
    map: RwLock<Map>,
    log: OutageLog,
    /// Whether the slots are being asked for.
    is_learning: AtomicBool,
    learned_at: Mutex<Option<Instant>>,
    /// Which node is asked next.
    turn: AtomicUsize,
}

/// The one who asks for the slots. Dropped, as when the runtime ends, another one may.
struct Learning(Arc<Cluster>);

impl Drop for Learning {
    fn drop(&mut self) {
        self.0.is_learning.store(false, Ordering::Release);
    }
}

impl Cluster {
    pub(crate) fn new(
        config: Config,
        seeds: Vec<Server>,
        replica_reads: bool,
        url: String,
    ) -> Arc<Self> {
        Arc::new(Self {
            log: OutageLog::new(url),
            members: Members::new(config, seeds),
            replica_reads,
            map: RwLock::default(),
            is_learning: AtomicBool::new(false),
            learned_at: Mutex::default(),
            turn: AtomicUsize::new(0),
        })
    }

    /// Waits until the slots are known and their nodes are connected, at most for a second.
    pub(crate) async fn connected(&self) {
        let mut trouble = None;
        let connected = async {
            while let Err(why) = self.learn().await {
                trouble = Some(why);
                tokio::time::sleep(AGAIN_AFTER).await;
            }
            trouble = None;
            // One that is not there is waited for as long.
            let members = self.read().members();
            for member in members {
                member.node.connected().await;
            }
        };
        drop(tokio::time::timeout(PATIENCE, connected).await);
        if let Some(why) = trouble {
            self.log.begins(&why);
        }
    }

    pub(crate) async fn run(
        self: &Arc<Self>,
        call: &ScriptCall,
        within: Duration,
    ) -> Result<ScriptReply, RunError> {
        let start = Instant::now();
        let slot = redis_keyslot(call.keys.first().map_or(&[], Vec::as_slice));
        let may_ask_a_replica = self.replica_reads && call.read_only;
        let command = Command::from(call);
        let replica = if may_ask_a_replica { self.replica(slot) } else { None };
        if let Some(replica) = replica {
            // Half the time, so that the primary can still be asked.
            let asked = replica.node.send(First::ReadOnly, command.clone(), within / 2).await;
            match asked {
                Ok(reply) => return command::reply(reply).map_err(RunError::Failed),
                Err(NoReply::NotCached) => return Err(RunError::NotCached),
                // It wrote nothing, whatever became of it.
                Err(no_reply) => self.learn_after(&no_reply),
            }
        }
        self.run_on_primary(slot, command, start, within).await
    }

    async fn run_on_primary(
        self: &Arc<Self>,
        slot: u16,
        command: Command,
        start: Instant,
        within: Duration,
    ) -> Result<ScriptReply, RunError> {
        let Some(mut member) = self.read().primary(slot) else {
            self.learn_soon();
            return Err(RunError::Failed(Error::new(
                ErrorKind::Unavailable,
                format!("no node is known to serve slot {slot}: {}", self.log.not_connected()),
            )));
        };
        let mut is_asking = false;
        let mut last = None;
        for _ in 0..=MAX_REDIRECTIONS {
            let left = within.saturating_sub(start.elapsed());
            if left.is_zero() {
                break;
            }
            let result = if is_asking {
                member.asking().send(First::Asking, command.clone(), left).await
            } else {
                member.node.send(First::Nothing, command.clone(), left).await
            };
            match result {
                Ok(reply) => return command::reply(reply).map_err(RunError::Failed),
                Err(NoReply::NotCached) => return Err(RunError::NotCached),
                Err(NoReply::Moved { to, error }) => {
                    self.learn_soon();
                    member = self.members.named(&to, &member);
                    self.write().moved(slot, &member);
                    (is_asking, last) = (false, Some(error));
                }
                Err(NoReply::Ask { to, error }) => {
                    member = self.members.named(&to, &member);
                    (is_asking, last) = (true, Some(error));
                }
                Err(no_reply) => {
                    self.learn_after(&no_reply);
                    let NoReply::Other(error, _) = no_reply else { break };
                    return Err(RunError::Failed(error));
                }
            }
        }
        Err(RunError::Failed(last.unwrap_or_else(|| {
            Error::new(ErrorKind::Unavailable, "there was no time left to send the script")
        })))
    }

    /// Returns the node that serves a key, if one is known to.
    pub(crate) fn member_of(&self, key: &[u8]) -> Option<Arc<Member>> {
        self.read().primary(redis_keyslot(key))
    }

    /// Returns the nodes that serve slots.
    pub(crate) fn primaries(&self) -> Vec<Arc<Member>> {
        self.read().primaries()
    }

    /// Returns a replica of the node that serves a slot, in turns.
    fn replica(self: &Arc<Self>, slot: u16) -> Option<Arc<Member>> {
        let replica = self.read().replica(slot, self.turn.fetch_add(1, Ordering::Relaxed));
        if replica.is_none() {
            self.learn_unless_done(NEW_REPLICAS_AFTER);
        }
        replica
    }

    /// Asks for the slots when a node can't be reached: another one may have taken its place.
    fn learn_after(self: &Arc<Self>, no_reply: &NoReply) {
        if no_reply.heard() != Heard::Server {
            self.learn_soon();
        }
    }

    /// Asks for the slots, unless that was done a moment ago.
    fn learn_soon(self: &Arc<Self>) {
        self.learn_unless_done(RECONNECT_DELAY);
    }

    /// Asks for the slots in a task, unless that is under way or was done this short a time ago.
    fn learn_unless_done(self: &Arc<Self>, ago: Duration) {
        let last = *self.learned_at.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|last| last.elapsed() < ago)
            || self.is_learning.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let learning = Learning(Arc::clone(self));
        drop(tokio::spawn(async move {
            let Learning(cluster) = &learning;
            match cluster.learn().await {
                Ok(()) => cluster.log.ends(),
                Err(why) => cluster.log.begins(&why),
            }
        }));
    }

    /// Asks the nodes one after the other, until one tells the slots; or returns why the last did
    /// not.
    async fn learn(&self) -> Result<(), String> {
        let mut known = self.read().members();
        let first = self.turn.fetch_add(1, Ordering::Relaxed) % known.len().max(1);
        known.rotate_left(first);
        known.retain(|member| member.node.is_connected());
        let mut result = Err("there is no node to ask".to_owned());
        for member in known.into_iter().chain(self.members.seeds()) {
            match member.slots(TELLS_WITHIN).await {
                Ok(ranges) => {
                    let member = |server: &Server| self.members.get(server);
                    let map = Map::new(&ranges, self.replica_reads, member);
                    *self.write() = map;
                    self.members.forget_unused();
                    result = Ok(());
                    break;
                }
                Err(why) => result = Err(why),
            }
        }
        *self.learned_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        result
    }

    fn read(&self) -> RwLockReadGuard<'_, Map> {
        // What it guards is whole at any time.
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Map> {
        self.map.write().unwrap_or_else(PoisonError::into_inner)
    }
}
