//! Connections to whatever serves the keys: one server, one that sentinels name, or a cluster.

use std::{fmt, sync::Arc, time::Duration};

use fred::types::Value;
use limiter_core::{Error, ErrorKind};

use crate::{
    address::Address,
    client::{RunError, ScriptCall, ScriptClient, ScriptReply},
    cluster::Cluster,
    command::{self, Command},
    fred_client::{First, Purpose},
    member::Member,
    no_reply::NoReply,
    node::Node,
    options::ConnectOptions,
};

/// Returns a connection to the server at `url`, once it is made, or after a second without.
///
/// | address | what it means |
/// |---|---|
/// | `redis://user:password@host:6379/0` | one server; only the host is required |
/// | `redis-sentinel://host:26379?sentinelServiceName=main&node=host2:26379` | the primary that the sentinels name |
/// | `redis-cluster://host:6379?node=host2:6379` | a cluster, from any of its nodes |
///
/// `rediss`, with the feature `tls`, encrypts, and `valkey` says the same as `redis`. The certificate
/// of each server has to be good for the host by which it is known: that in the address, or that
/// which the sentinels or the cluster tell.
///
/// The server need not be there: until it is, and whenever it is gone, checks fail, and the
/// connection is tried for again ten times a second, or about every half second where nothing comes
/// back at all. One on which nothing was answered for a second, nor within a check's deadline if
/// that is longer, is given up for a new one. That a server can't be reached, and why, is logged
/// once when it begins, at the level WARN, and so is its end.
///
/// In a cluster each node has a connection of its own, so that one that is gone is missed by its
/// own keys alone. A call that a node sends on to another is sent there, since it was not executed;
/// so slots can be moved while they are in use.
///
/// # Errors
///
/// [`ErrorKind::InvalidSetting`] if `url` can't be understood or asks for TLS without the feature
/// `tls`, or if there is no Tokio runtime. A server that is not there is no error.
pub async fn connect(url: &str) -> Result<Connection, Error> {
    connect_with(url, &ConnectOptions::new()).await
}

/// Returns a connection as [`connect`] does, with more to it than the address says.
///
/// ```no_run
/// use limiter_redis::{ConnectOptions, connect_with};
///
/// # async fn example() -> Result<(), limiter_core::Error> {
/// let options = ConnectOptions::new().with_replica_reads();
/// let client = connect_with("redis-cluster://127.0.0.1:7000", &options).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// As [`connect`], and [`ErrorKind::InvalidSetting`] if an option does not fit the address.
pub async fn connect_with(url: &str, options: &ConnectOptions) -> Result<Connection, Error> {
    let Address { config, cluster, url } = Address::parse(url, options)?;
    if tokio::runtime::Handle::try_current().is_err() {
        let message =
            format!("the server address {url:?}: there is no Tokio runtime to connect on");
        return Err(Error::new(ErrorKind::InvalidSetting, message));
    }
    let topology = match cluster {
        Some(seeds) => {
            let cluster = Cluster::new(config, seeds, options.replica_reads, url.clone());
            cluster.connected().await;
            Topology::Cluster(cluster)
        }
        None => {
            let node = Node::start(config, Purpose::Serving, "Redis".to_owned(), url.clone());
            node.connected().await;
            Topology::Single(Arc::new(node))
        }
    };
    Ok(Connection { topology, url: url.into() })
}

/// A connection to Redis or Valkey, which clones share. See [`connect`].
#[derive(Clone)]
pub struct Connection {
    topology: Topology,
    url: Arc<str>,
}

#[derive(Clone)]
enum Topology {
    /// One server, or the one that sentinels name.
    Single(Arc<Node>),
    Cluster(Arc<Cluster>),
}

/// One of the servers that serve keys.
pub(crate) struct Server {
    /// Its address, without a password.
    pub(crate) name: String,
    at: At,
}

enum At {
    Single(Arc<Node>),
    Member(Arc<Member>),
}

impl Connection {
    /// Returns the servers that serve keys: of a cluster, the primaries that are known.
    pub(crate) fn servers(&self) -> Vec<Server> {
        match &self.topology {
            Topology::Single(node) => {
                vec![Server { name: self.url.to_string(), at: At::Single(Arc::clone(node)) }]
            }
            Topology::Cluster(cluster) => {
                let members = cluster.primaries().into_iter();
                let server = |member: Arc<Member>| Server {
                    name: member.to_string(),
                    at: At::Member(member),
                };
                members.map(server).collect()
            }
        }
    }
}

impl Server {
    /// Sends a command once.
    pub(crate) async fn send(
        &self,
        name: &'static str,
        arguments: &[&str],
        within: Duration,
    ) -> Result<Value, NoReply> {
        let arguments = arguments.iter().map(|argument| Value::from(*argument)).collect();
        let node = match &self.at {
            At::Single(node) => node,
            At::Member(member) => &member.node,
        };
        node.send(First::Nothing, Command { name, arguments }, within).await
    }
}

impl ScriptClient for Connection {
    async fn run(&self, call: &ScriptCall, within: Duration) -> Result<ScriptReply, RunError> {
        let node = match &self.topology {
            Topology::Single(node) => node,
            Topology::Cluster(cluster) => return cluster.run(call, within).await,
        };
        match node.send(First::Nothing, Command::from(call), within).await {
            Ok(reply) => command::reply(reply).map_err(RunError::Failed),
            Err(NoReply::NotCached) => Err(RunError::NotCached),
            Err(NoReply::Other(error, _)) => Err(RunError::Failed(error)),
            Err(NoReply::Moved { error, .. } | NoReply::Ask { error, .. }) => {
                let message =
                    format!("{error}: the server is part of a cluster, use redis-cluster://");
                Err(RunError::Failed(Error::new(error.kind(), message).with_source(error)))
            }
        }
    }

    fn takes_many_keys(&self) -> bool {
        matches!(self.topology, Topology::Single(_))
    }

    fn server_of(&self, key: &[u8]) -> usize {
        match &self.topology {
            Topology::Single(_) => 0,
            Topology::Cluster(cluster) => cluster.member_of(key).map_or(0, |member| member.number),
        }
    }

    fn name_of(&self, key: &[u8]) -> Option<String> {
        match &self.topology {
            Topology::Single(_) => None,
            Topology::Cluster(cluster) => cluster.member_of(key).map(|member| member.to_string()),
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("url", &self.url).finish_non_exhaustive()
    }
}
