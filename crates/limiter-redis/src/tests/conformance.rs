//! The rows that every limiter decides alike, by each script and each client.

use std::sync::Arc;

#[cfg(feature = "fred-client")]
use fred::{clients::Pool, interfaces::ClientLike, types::config::Config};
use limiter_test::conformance;

use self::redis_client::RedisClient;
use super::store::Store;
#[cfg(feature = "fred-client")]
use crate::FredClient;
use crate::ScriptClient;

/// The client of the example `redis-client`.
#[path = "../../../../examples/redis-client/src/client.rs"]
mod redis_client;

#[test]
fn gcra_conforms() {
    let store = Store::new();
    conformance::gcra(|policy| store.limiter(policy));
}

#[test]
fn windows_conform() {
    let store = Store::new();
    conformance::windows(|policy| store.limiter(policy));
}

#[test]
fn several_limits_conform() {
    let store = Store::new();
    conformance::several(|policy| store.limiter(policy));
}

#[test]
fn every_operation_conforms() {
    let store = Store::new();
    conformance::operations(|policy| store.limiter(policy));
}

#[test]
fn a_cluster_conforms_in_every_algorithm_and_operation() {
    all_conform(&Store::on_cluster());
}

#[cfg(feature = "fred-client")]
#[test]
fn a_fred_client_of_the_caller_conforms() {
    all_conform(&Store::with(async |url| {
        let pool = Pool::new(Config::from_url(url).unwrap(), None, None, None, 2).unwrap();
        drop(pool.init().await.unwrap());
        FredClient::of_pool(pool).unwrap()
    }));
}

#[test]
fn a_connection_manager_of_redis_conforms() {
    all_conform(&Store::with(async |url| {
        let client = redis::Client::open(url).unwrap();
        RedisClient::of(client.get_connection_manager().await.unwrap()).unwrap()
    }));
}

#[test]
fn a_multiplexed_connection_of_redis_conforms() {
    all_conform(&Store::with(async |url| {
        let client = redis::Client::open(url).unwrap();
        let connection = client.get_multiplexed_async_connection().await.unwrap();
        RedisClient::of(connection).unwrap()
    }));
}

fn all_conform<C: ScriptClient>(store: &Arc<Store<C>>) {
    conformance::gcra(|policy| store.limiter(policy));
    conformance::windows(|policy| store.limiter(policy));
    conformance::several(|policy| store.limiter(policy));
    conformance::operations(|policy| store.limiter(policy));
}
