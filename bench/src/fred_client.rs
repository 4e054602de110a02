//! The client library `fred` without the limiter, with the connection settings of
//! `limiter_redis::connect`.

use std::time::Duration;

use anyhow::Result;
use fred::{
    clients::Client,
    interfaces::ClientLike,
    types::config::{Config, ConnectionConfig, PerformanceConfig, ReconnectPolicy, TcpConfig},
};

/// The deadline of a call, long enough for a busy machine.
pub(crate) const WITHIN: Duration = Duration::from_secs(1);

/// Returns a client with one connection.
pub(crate) async fn connect(url: &str) -> Result<Client> {
    let performance =
        PerformanceConfig { default_command_timeout: WITHIN, ..PerformanceConfig::default() };
    let connection = ConnectionConfig {
        connection_timeout: WITHIN,
        internal_command_timeout: WITHIN,
        max_command_attempts: 1,
        max_command_buffer_len: 4_096,
        tcp: TcpConfig { nodelay: Some(true), ..TcpConfig::default() },
        ..ConnectionConfig::default()
    };
    let reconnect = ReconnectPolicy::new_constant(0, 100);
    let client =
        Client::new(Config::from_url(url)?, Some(performance), Some(connection), Some(reconnect));
    client.init().await?;
    Ok(client)
}
