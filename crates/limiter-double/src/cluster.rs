//! Servers that share the slots of a cluster.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{keyspace::Keyspace, reply::Reply, server::Server, version::Version};

const SLOTS: u16 = 16_384;

/// Several primaries, which serve all slots.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Server>,
    map: Arc<Mutex<Map>>,
}

/// A server's place in its cluster.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    number: usize,
    map: Arc<Mutex<Map>>,
}

/// Which node serves which slot. All nodes have the same one.
#[derive(Debug)]
struct Map {
    addresses: Vec<String>,
    owners: Vec<usize>,
    /// The slots that move, with the nodes that they move to.
    moving: BTreeMap<u16, usize>,
    epoch: u64,
    version: Version,
}

impl Cluster {
    /// Returns a cluster of one node for each address, `host:port`, which serve about as many slots each.
    #[must_use]
    pub fn new(version: Version, addresses: &[&str]) -> Self {
        let owners =
            (0..usize::from(SLOTS)).map(|slot| slot * addresses.len() / usize::from(SLOTS));
        let map = Arc::new(Mutex::new(Map {
            addresses: addresses.iter().map(ToString::to_string).collect(),
            owners: owners.collect(),
            moving: BTreeMap::new(),
            epoch: 1,
            version,
        }));
        let node = |number| {
            let mut server = Server::new(version);
            server.store.member = Some(Member { number, map: Arc::clone(&map) });
            server
        };
        Self { nodes: (0..addresses.len()).map(node).collect(), map }
    }

    /// Returns the node of an address.
    pub fn at(&mut self, address: &str) -> Option<&mut Server> {
        let number = self.lock().addresses.iter().position(|it| it == address)?;
        self.nodes.get_mut(number)
    }

    /// Returns the nodes, in the order of their addresses.
    pub const fn nodes(&mut self) -> &mut [Server] {
        self.nodes.as_mut_slice()
    }

    /// Returns the number of the node that serves a slot.
    #[must_use]
    pub fn owner(&self, slot: u16) -> Option<usize> {
        self.lock().owners.get(usize::from(slot)).copied()
    }

    /// Begins to move a slot to another node: from now on new keys of it are made there.
    pub fn begin_move(&mut self, slot: u16, to: usize) {
        self.lock().moving.insert(slot, to);
    }

    /// Moves a key of a slot that moves, as `MIGRATE` does.
    pub fn move_key(&mut self, key: &[u8]) {
        let slot = slot(key);
        let Some(to) = self.lock().moving.get(&slot).copied() else { return };
        let from = self.owner(slot);
        let stored = from.and_then(|from| self.nodes.get_mut(from)?.store.space.take(key));
        if let Some((stored, to)) = stored.zip(self.nodes.get_mut(to)) {
            to.store.space.insert(key, stored);
        }
    }

    /// Moves the other keys of a slot, and gives it to the node that it moves to.
    pub fn end_move(&mut self, slot: u16) {
        let keys: Vec<Vec<u8>> =
            self.nodes.iter().flat_map(Server::keys).map(|(key, _)| key.to_vec()).collect();
        for key in keys.iter().filter(|key| self::slot(key) == slot) {
            self.move_key(key);
        }
        let mut map = self.lock();
        let to = map.moving.remove(&slot);
        if let Some((owner, to)) = map.owners.get_mut(usize::from(slot)).zip(to) {
            *owner = to;
        }
        map.epoch += 1;
    }

    fn lock(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    /// Returns an error if another node has to execute a command with these keys.
    pub(crate) fn redirect(
        &self,
        space: &Keyspace,
        keys: &[&[u8]],
        is_asking: bool,
    ) -> Result<(), String> {
        let Some(first) = keys.first() else { return Ok(()) };
        let slot = slot(first);
        if keys.iter().any(|key| self::slot(key) != slot) {
            return Err("CROSSSLOT Keys in request don't hash to the same slot".to_owned());
        }
        let map = self.lock();
        let owner = map.owners.get(usize::from(slot)).copied().unwrap_or_default();
        let to = map.moving.get(&slot).copied();
        let missing = keys.iter().filter(|key| space.get(key).is_none()).count();
        let try_again =
            || Err("TRYAGAIN Multiple keys request during rehashing of slot".to_owned());
        let redirected = |word: &str, node: usize| {
            let address = map.addresses.get(node).map_or("", String::as_str);
            Err(format!("{word} {slot} {address}"))
        };
        match to {
            Some(to) if owner == self.number && missing > 0 => {
                // Redis 6.2 redirects such a call, and the other node refuses it.
                let has_some = missing < keys.len() && map.version != Version::Redis6_2;
                if has_some { try_again() } else { redirected("ASK", to) }
            }
            Some(to) if to == self.number && is_asking => {
                if keys.len() > 1 && missing > 0 {
                    try_again()
                } else {
                    Ok(())
                }
            }
            _ if owner != self.number => redirected("MOVED", owner),
            _ => Ok(()),
        }
    }

    /// Returns the reply to `CLUSTER SLOTS`.
    pub(crate) fn slots(&self) -> Reply {
        let map = self.lock();
        let ranges = map.ranges().into_iter().map(|(first, last, node)| {
            let address = map.addresses.get(node).map_or("", String::as_str);
            let (host, port) = address.rsplit_once(':').unwrap_or((address, "0"));
            let port = Reply::Integer(port.parse().unwrap_or(0));
            let mut node = vec![Reply::bulk(host), port, Reply::bulk(id(node))];
            // Since 7.0 with its other names, which it has none of.
            if map.version > Version::Redis6_2 {
                node.push(Reply::Array(Vec::new()));
            }
            let range = [first, last].map(|slot| Reply::Integer(slot.into()));
            Reply::Array(range.into_iter().chain([Reply::Array(node)]).collect())
        });
        Reply::Array(ranges.collect())
    }

    /// Returns the reply to `CLUSTER NODES`.
    pub(crate) fn nodes(&self) -> Reply {
        let map = self.lock();
        let mut text = String::new();
        for (node, address) in map.addresses.iter().enumerate() {
            let myself = if node == self.number { "myself," } else { "" };
            let port = address.rsplit_once(':').map_or("0", |(_, port)| port);
            // Writing to a string does not fail.
            let _ = write!(
                text,
                "{} {address}@1{port} {myself}master - 0 0 {} connected",
                id(node),
                map.epoch
            );
            for (first, last, _) in map.ranges().iter().filter(|(_, _, owner)| *owner == node) {
                let _ = write!(text, " {first}");
                if first != last {
                    let _ = write!(text, "-{last}");
                }
            }
            for (slot, to) in &map.moving {
                let owner = map.owners.get(usize::from(*slot)).copied().unwrap_or_default();
                if node == self.number && owner == node {
                    let _ = write!(text, " [{slot}->-{}]", id(*to));
                } else if node == self.number && *to == node {
                    let _ = write!(text, " [{slot}-<-{}]", id(owner));
                }
            }
            text.push('\n');
        }
        Reply::Bulk(text.into())
    }

    fn lock(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Map {
    /// Returns the ranges of slots that one node serves: the first, the last, and the node.
    fn ranges(&self) -> Vec<(u16, u16, usize)> {
        let mut ranges: Vec<(u16, u16, usize)> = Vec::new();
        for (slot, owner) in (0..SLOTS).zip(&self.owners) {
            match ranges.last_mut() {
                Some((_, last, node)) if node == owner => *last = slot,
                _ => ranges.push((slot, slot, *owner)),
            }
        }
        ranges
    }
}

fn id(node: usize) -> String {
    format!("{node:040x}")
}

/// Returns the slot of a key: by the part in braces, if there is one that is not empty.
///
/// ```
/// assert_eq!(limiter_double::slot(b"foo"), 12182);
/// assert_eq!(limiter_double::slot(b"a{foo}b"), 12182);
/// ```
#[must_use]
pub fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = key.get(open + 1..)?;
        let close = rest.iter().position(|byte| *byte == b'}')?;
        rest.get(..close).filter(|tag| !tag.is_empty())
    });
    // CRC-16/XMODEM.
    let crc = tag.unwrap_or(key).iter().fold(0_u16, |crc, byte| {
        let crc = crc ^ u16::from(*byte) << 8;
        (0..8).fold(crc, |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 })
    });
    crc % SLOTS
}
