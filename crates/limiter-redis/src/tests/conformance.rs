//! The rows that every limiter decides alike, by each script and each client.

use std::sync::Arc;

#[cfg(feature = "fred-client")]
use fred::{clients::Pool, interfaces::ClientLike, types::config::Config};
use limiter_test::conformance;

use super::store::Store;
#[cfg(feature = "fred-client")]
use crate::FredClient;
#[cfg(feature = "redis")]
use crate::RedisClient;
use crate::ScriptClient;

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

#[cfg(feature = "redis")]
#[test]
fn a_connection_manager_of_redis_conforms() {
    all_conform(&Store::with(async |url| {
        let client = redis::Client::open(url).unwrap();
        RedisClient::of_manager(client.get_connection_manager().await.unwrap()).unwrap()
    }));
}

#[cfg(feature = "redis")]
#[test]
fn a_multiplexed_connection_of_redis_conforms() {
    all_conform(&Store::with(async |url| {
        let client = redis::Client::open(url).unwrap();
        let connection = client.get_multiplexed_async_connection().await.unwrap();
        RedisClient::of_multiplexed(connection).unwrap()
    }));
}

fn all_conform<C: ScriptClient>(store: &Arc<Store<C>>) {
    conformance::gcra(|policy| store.limiter(policy));
    conformance::windows(|policy| store.limiter(policy));
    conformance::several(|policy| store.limiter(policy));
    conformance::operations(|policy| store.limiter(policy));
}
