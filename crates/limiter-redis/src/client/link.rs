//! A connection, and what runs it.

use std::{sync::Arc, time::Duration};

use limiter_core::{Error, SystemClock};
use tokio::{runtime::Handle, time::timeout};

use super::{
    address::{Address, Servers},
    circuit_breaker::CircuitBreaker,
    cluster::routing::Cluster,
    fred::{node::FredNode, start::NodeSettings},
    node::{LastFailure, Node as _},
    options::ConnectOptions,
    sentinels::Sentinels,
    threads::{self, Driver},
};

/// A connection, and the thread that runs it.
pub(crate) struct Link {
    /// The address without users and passwords.
    pub(crate) url: Arc<str>,
    /// The servers and the database, which have the states.
    pub(crate) store: String,
    pub(crate) topology: Topology,
    pub(crate) driver: Driver,
    /// Runs the timers of callers.
    pub(crate) timers: Handle,
    pub(crate) breaker: CircuitBreaker,
}

#[derive(Clone)]
pub(crate) enum Topology {
    Single(Arc<FredNode>),
    /// The server that sentinels name.
    Sentinels(Arc<Sentinels<NodeSettings>>),
    Cluster(Arc<Cluster<NodeSettings>>),
}

impl Link {
    /// Returns a link to the servers at `url`: on the runtime of its options, or on a thread of its own.
    pub(crate) fn to(url: &str, options: &ConnectOptions) -> Result<Self, Error> {
        let address = Address::parse(url, options)?;
        let driver = match &options.runtime {
            Some(runtime) => Driver::on(runtime.clone()),
            None => Driver::start()?,
        };
        Ok(Self::start(address, options, driver, threads::timers()?))
    }

    fn start(address: Address, options: &ConnectOptions, driver: Driver, timers: Handle) -> Self {
        let store = address.store();
        let Address { servers, config, sentinel_config, url } = address;
        let ConnectOptions { name, provider, silence, .. } = options;
        let mut settings = NodeSettings {
            runtime: driver.runtime().clone(),
            config,
            name: name.as_deref().unwrap_or(ConnectOptions::NAME).into(),
            provider: provider.clone(),
            reconnects: true,
            last_failure: Arc::new(LastFailure::of(url.clone())),
        };
        let silence = silence.unwrap_or(CircuitBreaker::DEFAULT_SILENCE);
        let breaker = CircuitBreaker::of(silence, Arc::new(SystemClock::new()));
        let topology = match servers {
            Servers::One(server) => {
                settings.config.server = server;
                Topology::Single(Arc::new(FredNode::start(settings, FredNode::ONLY.to_owned())))
            }
            Servers::Sentinels { hosts, primary } => {
                let of_sentinels = NodeSettings {
                    config: sentinel_config,
                    provider: None,
                    reconnects: false,
                    ..settings.clone()
                };
                let sentinels = Sentinels::start(primary, settings, hosts, &of_sentinels);
                Topology::Sentinels(Arc::new(sentinels))
            }
            Servers::Cluster(seeds) => {
                Topology::Cluster(Cluster::new(settings, seeds, breaker.clone()))
            }
        };
        Self { url: url.into(), store, topology, driver, timers, breaker }
    }

    /// Waits until it is connected, for `within` at most.
    pub(crate) async fn connected(&self, within: Duration) {
        let topology = self.topology.clone();
        // The runtime of the link drives the wait, so the caller needs none.
        let connected = async move {
            match topology {
                Topology::Single(node) => node.connected().await,
                Topology::Sentinels(sentinels) => sentinels.connected().await,
                Topology::Cluster(cluster) => cluster.connected().await,
            }
        };
        drop(self.driver.runtime().spawn(async move { timeout(within, connected).await }).await);
    }
}
