//! The nodes of a cluster that there are connections to.

use std::{
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use fred::types::{
    Value,
    config::{Config, Server, ServerConfig},
};

use crate::{
    command::{self, Command},
    fred_client::{First, Purpose},
    node::Node,
    slots::{self, Range},
};

/// A node of a cluster.
pub(crate) struct Member {
    /// The smallest that no other had when it came to be known, from one.
    pub(crate) number: usize,
    server: Server,
    config: Config,
    pub(crate) node: Node,
    /// A connection for the commands that need `ASKING`, made when there are any.
    asking: OnceLock<Node>,
}

/// All nodes that someone uses, so that none is connected to twice.
pub(crate) struct Members {
    /// The settings of each, but for the address.
    config: Config,
    /// Those that are connected to however seldom they are used.
    seeds: Vec<Server>,
    known: Mutex<Vec<Arc<Member>>>,
}

impl Members {
    pub(crate) fn new(config: Config, seeds: Vec<Server>) -> Self {
        Self { config, seeds, known: Mutex::default() }
    }

    /// Returns the nodes to begin with. Each is connected to when it is reached.
    pub(crate) fn seeds(&self) -> impl Iterator<Item = Arc<Member>> {
        self.seeds.iter().map(|seed| self.get(seed))
    }

    /// Returns the node at an address.
    pub(crate) fn get(&self, server: &Server) -> Arc<Member> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(member) = known.iter().find(|member| member.server == *server) {
            return Arc::clone(member);
        }
        let is_free = |number: &usize| known.iter().all(|member| member.number != *number);
        let number = (1..).find(is_free).unwrap_or_default();
        let member = Arc::new(Member::new(number, server.clone(), self.config.clone()));
        known.push(Arc::clone(&member));
        member
    }

    /// Returns the node that `teller` named, such as `127.0.0.1:6381`, or by the port alone if it
    /// has the same host.
    pub(crate) fn named(&self, name: &str, teller: &Arc<Member>) -> Arc<Member> {
        let Some((host, Ok(port))) =
            name.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>()))
        else {
            return Arc::clone(teller);
        };
        let host = if matches!(host, "" | "?") { &*teller.server.host } else { host };
        self.get(&Server::new(host, port))
    }

    /// Closes the connections to nodes that no one uses any more.
    pub(crate) fn forget_unused(&self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|member| Arc::strong_count(member) > 1 || self.seeds.contains(&member.server));
    }
}

impl Member {
    fn new(number: usize, server: Server, mut config: Config) -> Self {
        config.server = ServerConfig::Centralized { server: server.clone() };
        let node = start(&server, config.clone(), Purpose::Serving);
        Self { number, server, config, node, asking: OnceLock::new() }
    }

    /// Returns the connection for the commands that need `ASKING`.
    pub(crate) fn asking(&self) -> &Node {
        self.asking.get_or_init(|| start(&self.server, self.config.clone(), Purpose::Asking))
    }

    /// Returns which nodes serve which slots, or why this one does not tell.
    pub(crate) async fn slots(&self, within: Duration) -> Result<Vec<Range>, String> {
        let arguments = vec![Value::from_static_str("SLOTS")];
        let command = Command { name: "CLUSTER", arguments };
        match self.node.send(First::Nothing, command, within).await {
            Ok(reply) => slots::read(&reply, &self.server.host).ok_or_else(|| {
                let (server, quoted) = (url(&self.server), command::quoted(&reply));
                format!("{server} tells of no slot: {quoted}")
            }),
            Err(no_reply) => Err(no_reply.to_string()),
        }
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&url(&self.server))
    }
}

fn start(server: &Server, config: Config, purpose: Purpose) -> Node {
    let url = url(server);
    Node::start(config, purpose, format!("Redis at {url}"), url)
}

fn url(server: &Server) -> String {
    format!("{}:{}", server.host, server.port)
}
