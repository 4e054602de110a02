//! Settings from a configuration file, on a server that asks for a password.

use limiter_core::Policy;
use limiter_redis::RedisSettings;
use limiter_rig::server::Server;

#[tokio::test]
async fn a_server_behind_a_unix_socket_is_served() {
    let socket = std::env::temp_dir().join(format!("limiter-{}.sock", std::process::id()));
    let socket = socket.to_str().unwrap();
    let server = Server::start_with(&["--unixsocket", socket]);
    server.command(&["CONFIG", "SET", "requirepass", "secret"]).unwrap();
    let text = format!(
        "url = \"redis+unix://{socket}?db=3\"\ncredentials = {{ username = \"default\", password = \"secret\" }}"
    );
    let settings: RedisSettings = toml::from_str(&text).unwrap();
    let builder = settings.builder(Policy::parse("api", "3/day").unwrap()).unwrap();
    let limiter = builder.build_on(settings.connection().await.unwrap()).unwrap();
    assert_eq!(crate::recover(&limiter).await.0.remaining(), 2);
    drop(std::fs::remove_file(socket));
}
