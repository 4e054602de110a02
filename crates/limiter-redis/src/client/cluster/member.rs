//! The connections to the nodes of a cluster.

use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use fred::types::{Value, config::Server};

use super::ranges::{self, Slots};
use crate::client::{
    faults::{CallError, Fault, quoted},
    last_failure::LastFailure,
    node::{Command, Connect, Node},
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

    /// Closes the connections to nodes that are not in use any more.
    pub(crate) fn forget_unused(&self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|member| Arc::strong_count(member) > 1 || self.seeds.contains(&member.server));
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
        let ranges = ranges::read(&reply, &self.server.host).ok_or_else(|| {
            let quoted = quoted(&reply);
            CallError::new(
                Fault::InvalidReply,
                format!("{} returned no slots: {quoted}", self.name),
            )
        })?;
        let epoch = match self.cluster("NODES", within).await {
            Ok(reply) => ranges::epoch(&reply),
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
