//! What the handles of a limiter and its permits share.

use std::{
    hash::BuildHasher,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, AtomicU64},
    },
    time::Duration,
};

use bytes::Bytes;
use foldhash::quality::SeedableRandomState;
use limiter_core::{Error, LimiterId, Timestamp};

use super::{
    full::Full,
    permit_state::{Expiry, PermitState},
    table::{Leave, Table},
};
use crate::{
    call::{
        queue::{Operating, Queue},
        sender::Sender,
    },
    client::ScriptClient,
    events::{EventKind, Events},
    keys::Keys,
    outage_log::OutageLog,
};

/// How many permits a call has at most, so that other commands on the server wait for a millisecond or two at most.
pub(crate) const MAX_PERMITS: usize = 200;

pub(crate) struct Shared<C> {
    pub(super) sender: Arc<Sender<C>>,
    pub(super) id: LimiterId,
    pub(super) limit: AtomicU32,
    pub(super) expiry: Expiry,
    pub(super) keys: Keys,
    pub(super) ids: Ids,
    /// The number of the next id.
    pub(super) next: AtomicU64,
    pub(super) table: Table,
    pub(super) full: Full,
    /// Permits that wait to be given back.
    pub(super) leaves: Arc<Queue<Waiting>>,
    /// How many processes share the store, if this one decides by its share while the store can't.
    pub(super) processes: Option<AtomicU32>,
    /// When the last lost permit was logged.
    logged_lost: Mutex<Option<Timestamp>>,
}

impl<C: ScriptClient> Shared<C> {
    pub(super) fn new(
        sender: Arc<Sender<C>>,
        (id, limit): (LimiterId, u32),
        expiry: Expiry,
    ) -> Result<Self, Error> {
        let settings = &sender.settings;
        let hasher = settings.hasher();
        Ok(Self {
            id,
            limit: AtomicU32::new(limit),
            expiry,
            keys: Keys::of_in_flight(&settings.prefix, sender.events.name(), settings.secret())?,
            ids: Ids::new(&hasher),
            next: AtomicU64::new(0),
            table: Table::new(expiry, hasher.clone()),
            full: Full::new(settings.denials, hasher),
            leaves: Arc::default(),
            processes: settings.local_share.map(|processes| AtomicU32::new(processes.get())),
            logged_lost: Mutex::new(None),
            sender,
        })
    }

    /// Returns the events, and the name.
    pub(super) fn events(&self) -> (&Arc<Events>, &str) {
        (&self.sender.events, self.sender.events.name())
    }

    /// Counts an event, and reports it.
    pub(super) fn report(&self, kind: EventKind, key: &[u8]) {
        self.sender.report(kind, self.events().1, key);
    }

    /// Returns whether a permit is lost, also if nothing but the clock shows that yet.
    pub(super) fn is_lost(self: &Arc<Self>, held: &PermitState) -> bool {
        if !held.is_lost() && held.is_over(self.sender.now()) && held.becomes_lost() {
            held.wake();
            self.report_lost(1, &held.key, BY_CLOCK);
            self.leave(self.table.lost(held));
        }
        held.is_lost()
    }

    /// Counts and reports lost permits, and logs them: one line every ten seconds.
    pub(super) fn report_lost(&self, number: usize, key: &[u8], why: &str) {
        for _ in 0..number {
            self.report(EventKind::PermitLost, key);
        }
        let (now, interval) = (self.sender.now(), OutageLog::INTERVAL);
        let mut logged = self.logged_lost.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = logged.is_some_and(|at| now.saturating_since(at) < interval);
        let is_logged = number > 0 && !is_recent;
        if is_logged {
            *logged = Some(now);
        }
        // A subscriber may use the limiter.
        drop(logged);
        if is_logged {
            let ((events, name), node) = (self.events(), self.sender.node_of(key));
            let (lost, node) = (events.tally.read().permits_lost, node.as_deref());
            tracing::warn!(
                name,
                node,
                lost,
                "permits of requests in flight are lost, so that others may run in their place: {why}"
            );
        }
    }

    /// Gives back a permit that its caller does not hold any more.
    pub(super) fn give_back(self: &Arc<Self>, held: &PermitState) {
        self.full.comes_back(&held.key);
        self.leave(self.table.left(held));
    }

    /// Returns items in groups that can share a call: of one key, unless the server has all slots, and of [`MAX_PERMITS`]
    /// at most. While a slot moves, a call with several of its keys is not executed if one of them is absent.
    pub(super) fn groups<T>(&self, mut items: Vec<T>, key: impl Fn(&T) -> &Bytes) -> Vec<Vec<T>> {
        let spans = self.sender.may_span_slots();
        // Those of a key together.
        items.sort_by(|one, other| key(one).cmp(key(other)));
        let mut groups: Vec<Vec<T>> = Vec::new();
        for item in items {
            match groups.last_mut() {
                Some(group)
                    if group.len() < MAX_PERMITS
                        && (spans || group.last().is_some_and(|it| key(it) == key(&item))) =>
                {
                    group.push(item);
                }
                _ => groups.push(vec![item]),
            }
        }
        groups
    }
}

/// Why a permit is lost that no reply has declared lost.
pub(super) const BY_CLOCK: &str = "they were not renewed in time";

/// A permit that waits to be given back. The end of a program can wait for it.
pub(crate) struct Waiting {
    pub(super) leave: Leave,
    /// After the next call that fails.
    pub(super) pause: Duration,
    /// Absent if too many operations are under way.
    pub(super) _operating: Option<Operating>,
}

/// The ids of permits: 8 characters that differ between processes, and a number.
#[derive(Debug)]
pub(crate) struct Ids {
    prefix: [u8; 8],
}

const CHARACTERS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";

impl Ids {
    /// Returns ids that differ from those by another seed.
    pub(crate) fn new(hasher: &SeedableRandomState) -> Self {
        let random = hasher.hash_one("ids of permits");
        Self { prefix: std::array::from_fn(|place| character(random >> (6 * place))) }
    }

    /// Returns the id with a number, of 16 bytes at most for any number that is reached.
    pub(crate) fn id(&self, number: u64) -> Bytes {
        let mut id = self.prefix.to_vec();
        let mut left = number;
        loop {
            id.push(character(left));
            left >>= 6;
            if left == 0 {
                return id.into();
            }
        }
    }
}

/// Returns the character of the lowest six bits.
fn character(bits: u64) -> u8 {
    let place = usize::try_from(bits % 64).unwrap_or(0);
    CHARACTERS.get(place).copied().unwrap_or(b'0')
}
