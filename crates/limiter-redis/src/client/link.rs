//! Connections by address and options, each on the thread that runs it.

use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use limiter_core::Error;
use tokio::time::timeout;

use super::{
    address::{Address, Servers},
    cluster::routing::Cluster,
    driver::Driver,
    fred::{node::FredNode, start::NodeSettings},
    last_failure::LastFailure,
    node::Node as _,
    options::ConnectOptions,
    sentinels::Sentinels,
};

/// An address, and the options of the connection to it.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) url: String,
    pub(crate) options: ConnectOptions,
}

/// A connection, and the thread that runs it.
pub(crate) struct Link {
    target: Target,
    pub(crate) topology: Topology,
    pub(crate) driver: Arc<Driver>,
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
    /// Returns a link to `target`: on the runtime of its options, or the one that connections share.
    pub(crate) fn to(target: &Target) -> Result<Arc<Self>, Error> {
        match &target.options.runtime {
            Some(runtime) => Self::start(target, || Ok(Driver::on(runtime.clone()))).map(Arc::new),
            None => Self::shared(target),
        }
    }

    /// Returns the link to `target` that connections share, on the thread that links share.
    fn shared(target: &Target) -> Result<Arc<Self>, Error> {
        // Dropped after the lock is released.
        let mut running = Vec::new();
        // No operation under the lock can leave it half done.
        let mut links = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|link| link.strong_count() > 0);
        running.extend(links.iter().filter_map(Weak::upgrade));
        let mut usable = running.iter().filter(|link| !link.has_ended());
        let is_same = |link: &&Arc<Self>| {
            link.target.url == target.url && link.target.options.is_same(&target.options)
        };
        if let Some(link) = usable.clone().find(is_same) {
            return Ok(Arc::clone(link));
        }
        let thread = usable.next().map(|link| Arc::clone(&link.driver));
        let link = Arc::new(Self::start(target, || thread.map_or_else(Driver::start, Ok))?);
        links.push(Arc::downgrade(&link));
        Ok(link)
    }

    fn start(
        target: &Target,
        driver: impl FnOnce() -> Result<Arc<Driver>, Error>,
    ) -> Result<Self, Error> {
        let Address { servers, config, sentinel_config, url } =
            Address::parse(&target.url, &target.options)?;
        let driver = driver()?;
        let ConnectOptions { name, provider, .. } = &target.options;
        let mut settings = NodeSettings {
            runtime: driver.runtime().clone(),
            config,
            name: name.as_deref().unwrap_or(ConnectOptions::NAME).into(),
            provider: provider.clone(),
            reconnects: true,
            last_failure: Arc::new(LastFailure::of(url)),
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
        Ok(Self { target: target.clone(), topology, driver })
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.driver.has_ended()
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
