//! Addresses of Unix sockets, such as `redis+unix:///run/redis.sock?db=3`.

use fred::types::config::Config;

use super::parameters::check_parameters;

/// Returns the settings for an address without its scheme, or what is wrong with it.
pub(super) fn config(rest: &str) -> Result<Config, String> {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    if !path.starts_with('/') {
        return Err(
            "a Unix socket has no host or user; write redis+unix:///run/redis.sock, and set \
                    the user in the options"
                .to_owned(),
        );
    }
    check_parameters(query, &["db"], "expected db")?;
    let database = match query.split_once('=') {
        None if query.is_empty() => None,
        parameter => {
            let number = parameter.map_or(query, |(_, number)| number);
            Some(number.parse().map_err(|_| "the database is not a number to 255")?)
        }
    };
    of_socket(path).map(|config| Config { database, ..config })
}

#[cfg(feature = "unix-sockets")]
#[expect(clippy::unnecessary_wraps, reason = "without the feature it is an error")]
fn of_socket(path: &str) -> Result<Config, String> {
    let server = fred::types::config::ServerConfig::Unix { path: path.into() };
    Ok(Config { server, ..Config::default() })
}

#[cfg(not(feature = "unix-sockets"))]
fn of_socket(_: &str) -> Result<Config, String> {
    Err("Unix sockets need the feature `unix-sockets` of limiter-redis; enable it".to_owned())
}
