//! The connections to the nodes of a cluster, and which slots each of them says who serves.

use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use fred::types::{Value, config::Server};

use crate::client::{
    faults::{CallError, Fault, quoted},
    node::{Command, Connect, LastFailure, Node},
};

/// A node of a cluster.
pub(crate) struct Member<N> {
    /// The smallest number that no other node had when this one was added.
    pub(crate) number: usize,
    /// The host and the port.
    pub(crate) name: Arc<str>,
    server: Server,
    pub(crate) node: Arc<N>,
    /// The connection for commands that need `ASKING`, made for the first of them. The library does not make
    /// it again, because it would then send the pairs of commands that waited, after their callers have left.
    asking: OnceLock<N>,
}

/// All nodes in use, so that each has one connection.
pub(crate) struct Members<C: Connect> {
    pub(super) connect: C,
    /// The nodes of the address, whose connections are kept even if they serve no slot.
    seeds: Vec<Server>,
    known: Mutex<Vec<Arc<Member<C::Node>>>>,
}

impl<C: Connect> Members<C> {
    pub(crate) fn new(connect: C, seeds: Vec<Server>) -> Self {
        Self { connect, seeds, known: Mutex::default() }
    }

    /// Returns the nodes of the address. Each is connected when it is returned.
    pub(crate) fn seeds(&self) -> impl Iterator<Item = Arc<Member<C::Node>>> {
        self.seeds.iter().map(|seed| self.get(seed))
    }

    /// Returns the node at an address.
    pub(crate) fn get(&self, server: &Server) -> Arc<Member<C::Node>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(member) = known.iter().find(|member| member.server == *server) {
            return Arc::clone(member);
        }
        let is_free = |number: &usize| known.iter().all(|member| member.number != *number);
        let number = (0..).find(is_free).unwrap_or_default();
        let member = Arc::new(Member::new(number, server.clone(), &self.connect));
        known.push(Arc::clone(&member));
        member
    }

    /// Returns the node that `source` named, such as `127.0.0.1:6381`, or `:6381` on the same host.
    pub(crate) fn named(&self, name: &str, source: &Arc<Member<C::Node>>) -> Arc<Member<C::Node>> {
        let Some((host, Ok(port))) =
            name.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>()))
        else {
            return Arc::clone(source);
        };
        let host = if matches!(host, "" | "?") { &*source.server.host } else { host };
        self.get(&Server::new(host, port))
    }

    /// Closes the connections to nodes that are not in use any more, and returns these nodes, with those of the address.
    pub(crate) fn forget_unused(&self) -> Vec<Arc<Member<C::Node>>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_unused = |member: &&Arc<Member<C::Node>>| Arc::strong_count(member) == 1;
        let unused: Vec<_> = known.iter().filter(is_unused).cloned().collect();
        known.retain(|member| {
            let is_used = !unused.iter().any(|unused| Arc::ptr_eq(unused, member));
            is_used || self.seeds.contains(&member.server)
        });
        unused
    }
}

impl<N: Node> Member<N> {
    fn new(number: usize, server: Server, connect: &impl Connect<Node = N>) -> Self {
        let name = format!("{}:{}", server.host, server.port);
        let connect = connect.noting(LastFailure::of(name.clone()));
        let node = Arc::new(connect.connect(&server, &format!("Redis at {name}")));
        Self { number, name: name.into(), server, node, asking: OnceLock::new() }
    }

    /// Returns the connection for the commands that need `ASKING`.
    pub(crate) fn asking(&self) -> &N {
        self.asking.get_or_init(|| self.node.without_reconnecting())
    }

    /// Returns which nodes serve which slots, or why this node does not say. Each of two commands has a reply
    /// `within` that time.
    pub(crate) async fn slots(&self, within: Duration) -> Result<Slots, CallError> {
        let reply = self.cluster("SLOTS", within).await?;
        let ranges = ranges(&reply, &self.server.host).ok_or_else(|| {
            let quoted = quoted(&reply);
            CallError::new(
                Fault::InvalidReply,
                format!("{} returned no slots: {quoted}", self.name),
            )
        })?;
        let epoch = match self.cluster("NODES", within).await {
            Ok(reply) => highest_epoch(&reply),
            Err(error) if matches!(error.fault(), Fault::NoReply | Fault::NotSent) => {
                return Err(error);
            }
            // The user may not call it.
            Err(_) => 0,
        };
        Ok(Slots { epoch, ranges })
    }

    async fn cluster(&self, what: &'static str, within: Duration) -> Result<Value, CallError> {
        let arguments = vec![Value::from_static_str(what)];
        self.node.run(None, Command::new("CLUSTER", arguments), within, Ok).await
    }
}

/// The number of slots of a cluster.
pub(super) const SLOTS: usize = 16_384;

/// Which nodes serve which slots, as one node says it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Slots {
    /// The highest configuration epoch of the nodes, which grows when a primary takes slots of another one. It is
    /// 0 if the node does not say.
    pub(super) epoch: u64,
    pub(super) ranges: Vec<Range>,
}

/// Slots that one primary serves, from the reply to `CLUSTER SLOTS`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) primary: Server,
}

/// Reads the reply to `CLUSTER SLOTS`, or returns `None` if it contains no slots. A node without a host
/// has the host `source`.
fn ranges(reply: &Value, source: &str) -> Option<Vec<Range>> {
    let Value::Array(ranges) = reply else { return None };
    let ranges: Vec<Range> = ranges.iter().filter_map(|range| range_of(range, source)).collect();
    (!ranges.is_empty()).then_some(ranges)
}

/// Reads `[first, last, [host, port, ...], ...]`, the primary first.
fn range_of(range: &Value, source: &str) -> Option<Range> {
    let Value::Array(parts) = range else { return None };
    let [first, last, primary, ..] = parts.as_slice() else { return None };
    let number = |value: &Value| usize::try_from(value.as_i64()?).ok();
    let (first, last) = (number(first)?, number(last)?);
    if first > last || last >= SLOTS {
        return None;
    }
    let primary = server(primary, source)?;
    Some(Range { first, last, primary })
}

/// Reads the highest configuration epoch from the reply to `CLUSTER NODES`: the seventh word of each line.
fn highest_epoch(reply: &Value) -> u64 {
    let text = reply.as_str().unwrap_or_default();
    let epochs = text.lines().filter_map(|line| line.split(' ').nth(6)?.parse().ok());
    epochs.max().unwrap_or_default()
}

fn server(node: &Value, source: &str) -> Option<Server> {
    let Value::Array(parts) = node else { return None };
    let [host, port, ..] = parts.as_slice() else { return None };
    let host = host.as_str().unwrap_or_default();
    let host = if host.is_empty() || host == "?" { source } else { &host };
    Some(Server::new(host, u16::try_from(port.as_i64()?).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: Value, port: i64) -> Value {
        Value::Array(vec![host, port.into(), "id".into(), Value::Array(vec![])])
    }

    #[test]
    fn slots_are_read_with_their_nodes() {
        let first = Value::Array(vec![
            0.into(),
            100.into(),
            node("10.0.0.1".into(), 1),
            node("10.0.0.2".into(), 2),
        ]);
        let rest = Value::Array(vec![101.into(), 16_383.into(), node(Value::Null, 3)]);
        let read = ranges(&Value::Array(vec![first, rest]), "source").unwrap();
        assert_eq!(
            read,
            [
                Range { first: 0, last: 100, primary: Server::new("10.0.0.1", 1) },
                Range { first: 101, last: 16_383, primary: Server::new("source", 3) },
            ]
        );
    }

    #[test]
    fn the_highest_epoch_of_a_node_is_that_of_the_map() {
        let lines = "a1 10.0.0.1:1@10001,host myself,master - 0 0 9 connected 0-100 [7->-a2]\n\
                     a2 10.0.0.2:2@10002 master - 0 1719 12 connected 101-16383\n\
                     a3 10.0.0.3:3@10003 slave,fail? a2 1719 1719 3 disconnected\n";
        assert_eq!(highest_epoch(&lines.into()), 12);
        assert_eq!(highest_epoch(&"".into()), 0);
        assert_eq!(highest_epoch(&Value::Null), 0);
    }

    #[test]
    fn a_reply_without_slots_is_no_map() {
        let beyond = Value::Array(vec![0.into(), 16_384.into(), node("host".into(), 1)]);
        let backwards = Value::Array(vec![2.into(), 1.into(), node("host".into(), 1)]);
        let negative = Value::Array(vec![(-1).into(), 1.into(), node("host".into(), 1)]);
        for reply in [beyond, backwards, negative, 3.into(), Value::Array(vec![0.into()])] {
            assert_eq!(ranges(&Value::Array(vec![reply]), "source"), None);
        }
        assert_eq!(ranges(&Value::Array(vec![]), "source"), None);
        assert_eq!(ranges(&Value::Null, "source"), None);
    }
}
