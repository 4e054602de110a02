//! The rows that every limiter decides alike, by each client on a real server.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use example_redis_client::RedisClient;
use limiter_core::{LimiterFuture, Policy, Timestamp};
use limiter_redis::FredClient;
use limiter_redis::fred::{clients::Pool, interfaces::ClientLike, types::config::Config};
use limiter_redis::{RedisLimiter, ScriptClient};
use limiter_rig::server::{Cluster, Server};
use limiter_test::{
    conformance::{CHARGES, GCRA, OPERATIONS, SEVERAL, WINDOWS, run},
    subject::{InStore, Process},
};
use tokio::runtime::{Builder, Runtime};

use crate::{clocked::Clocked, connect_here};

const HOUR: Duration = Duration::from_secs(3_600);

/// A process with a client, whose scripts read the time that the rows set.
struct Clients<C> {
    runtime: Runtime,
    client: Clocked<C>,
    limiters: AtomicU32,
}

impl<C: ScriptClient> Clients<C> {
    fn with(connect: impl AsyncFnOnce() -> C) -> Arc<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let client = Clocked::new(runtime.block_on(connect()), HOUR);
        Arc::new(Self { runtime, client, limiters: AtomicU32::new(0) })
    }

    fn limiter(self: &Arc<Self>, policy: Policy) -> InStore<Self, RedisLimiter<Clocked<C>>> {
        let number = self.limiters.fetch_add(1, Ordering::Relaxed);
        let builder = RedisLimiter::builder(policy.clone()).prefix(&number.to_string());
        // A cached denial follows this process's clock.
        let builder = builder.deadline(Duration::from_secs(10)).denial_cache(0);
        let limiter = builder.build_on(self.client.clone()).unwrap();
        InStore::of(Arc::clone(self), limiter, &[policy])
    }
}

impl<C> Process for Clients<C> {
    fn set_clock(&self, now: Timestamp) {
        self.client.set(now);
    }

    fn wait_for<T>(&self, future: LimiterFuture<T>) -> T {
        self.runtime.block_on(future).unwrap()
    }
}

#[test]
fn a_connection_conforms() {
    let server = Server::start();
    all_conform(&Clients::with(async || connect_here(&server.url()).await));
}

#[test]
fn a_connection_to_a_cluster_conforms() {
    let cluster = Cluster::start();
    all_conform(&Clients::with(async || connect_here(&cluster.url()).await));
}

#[test]
fn a_fred_client_of_the_caller_conforms() {
    let server = Server::start();
    all_conform(&Clients::with(async || {
        let config = Config::from_url(&server.url()).unwrap();
        let pool = Pool::new(config, None, None, None, 2).unwrap();
        drop(pool.init().await.unwrap());
        FredClient::of_pool(pool).unwrap()
    }));
}

#[test]
fn a_connection_manager_of_redis_conforms() {
    let server = Server::start();
    all_conform(&Clients::with(async || {
        let client = redis::Client::open(server.url()).unwrap();
        RedisClient::of(client.get_connection_manager().await.unwrap()).unwrap()
    }));
}

#[test]
fn a_multiplexed_connection_of_redis_conforms() {
    let server = Server::start();
    all_conform(&Clients::with(async || {
        let client = redis::Client::open(server.url()).unwrap();
        let connection = client.get_multiplexed_async_connection().await.unwrap();
        RedisClient::of(connection).unwrap()
    }));
}

fn all_conform<C: ScriptClient>(clients: &Arc<Clients<C>>) {
    let files = [GCRA, WINDOWS, SEVERAL, OPERATIONS, CHARGES];
    run(&files, |policy| clients.limiter(policy));
}
