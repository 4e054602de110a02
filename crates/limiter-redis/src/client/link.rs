//! Connections by address and options, each on the thread that runs it.

use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use limiter_core::{Error, SystemClock};
use tokio::time::timeout;

use super::{
    address::{Address, Identity, Servers},
    circuit_breaker::CircuitBreaker,
    cluster::routing::Cluster,
    driver::Driver,
    fred::{node::FredNode, start::NodeSettings},
    last_failure::LastFailure,
    node::Node as _,
    options::ConnectOptions,
    sentinels::Sentinels,
};

/// A connection, and the thread that runs it.
pub(crate) struct Link {
    /// The address without users and passwords.
    pub(crate) url: Arc<str>,
    pub(crate) identity: Identity,
    options: ConnectOptions,
    pub(crate) topology: Topology,
    pub(crate) driver: Arc<Driver>,
    pub(crate) breaker: CircuitBreaker,
}

#[derive(Clone)]
pub(crate) enum Topology {
    Single(Arc<FredNode>),
    /// The server that sentinels name.
    Sentinels(Arc<Sentinels<NodeSettings>>),
    Cluster(Arc<Cluster<NodeSettings>>),
}

/// The links of the process on the thread that they share, while a connection uses them.
static SHARED: Mutex<Vec<Weak<Link>>> = Mutex::new(Vec::new());

impl Link {
    /// Returns a link to the servers at `url`: on the runtime of its options, or the one that connections share.
    pub(crate) fn to(url: &str, options: &ConnectOptions) -> Result<Arc<Self>, Error> {
        let address = Address::parse(url, options)?;
        match &options.runtime {
            Some(runtime) => {
                Ok(Arc::new(Self::start(address, options, Driver::on(runtime.clone()))))
            }
            None => Self::shared(address, options),
        }
    }

    /// Returns the link that connections to one address share, on the thread that links share.
    fn shared(address: Address, options: &ConnectOptions) -> Result<Arc<Self>, Error> {
        let identity = address.identity();
        // Dropped after the lock is released.
        let mut running = Vec::new();
        // No operation under the lock can leave it half done.
        let mut links = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|link| link.strong_count() > 0);
        running.extend(links.iter().filter_map(Weak::upgrade));
        let is_same =
            |link: &&Arc<Self>| link.identity == identity && link.options.is_same(options);
        if let Some(link) = running.iter().find(is_same) {
            return Ok(Arc::clone(link));
        }
        let thread = running.first().map(|link| Arc::clone(&link.driver));
        let driver = thread.map_or_else(Driver::start, Ok)?;
        let link = Arc::new(Self::start(address, options, driver));
        links.push(Arc::downgrade(&link));
        Ok(link)
    }

    fn start(address: Address, options: &ConnectOptions, driver: Arc<Driver>) -> Self {
        let identity = address.identity();
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
            Servers::Cluster(seeds) => Topology::Cluster(Cluster::new(settings, seeds)),
        };
        let silence = silence.unwrap_or(CircuitBreaker::DEFAULT_SILENCE);
        let breaker = CircuitBreaker::of(silence, Arc::new(SystemClock::new()));
        let (url, options) = (url.into(), options.clone());
        Self { url, identity, options, topology, driver, breaker }
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
