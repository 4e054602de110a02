//! The address of a server: which servers, how they are found, and how they are spoken to.

mod parts;
mod redact;

use std::iter;

#[cfg(feature = "tls")]
use fred::types::config::TlsConnector;
use fred::types::config::{Config, Server, ServerConfig};
use limiter_core::{Error, ErrorKind};
use url::Url;

use self::parts::{Kind, decoded, parameter};
pub(crate) use self::redact::redacted;
use super::options::ConnectOptions;

/// A valid address.
pub(crate) struct Address {
    /// The library's settings; for a cluster or with sentinels, those of a server, without its address.
    pub(crate) config: Config,
    pub(crate) servers: Servers,
    /// The address without users and passwords, for errors and log lines.
    pub(crate) url: String,
}

/// How the servers are found.
pub(crate) enum Servers {
    /// There is one, in the settings.
    One,
    /// By these sentinels, which watch a primary of this name, and take these settings without their address.
    Sentinels { hosts: Vec<Server>, primary: String, config: Box<Config> },
    /// By these nodes of a cluster.
    Cluster(Vec<Server>),
}

impl Address {
    /// Parses an address such as `redis://user:password@host:6379`.
    pub(crate) fn parse(url: &str, options: &ConnectOptions) -> Result<Self, Error> {
        let shown = redacted(url);
        match read(url, options) {
            Ok((config, servers)) => Ok(Self { config, servers, url: shown }),
            Err(why) => {
                let message = format!("invalid server address {shown:?}: {why}");
                Err(Error::new(ErrorKind::InvalidSetting, message))
            }
        }
    }
}

/// How to write a user or a password.
const ENCODE: &str = "write redis://user:password@host:6379, and a \"/\", \"?\", \"#\" or \"@\" in a user or password \
                      as %2F, %3F, %23 or %40";

/// Returns the settings and the servers, or what is wrong with an address and what to do.
fn read(address: &str, options: &ConnectOptions) -> Result<(Config, Servers), String> {
    let (encrypted, kind) = Kind::of_scheme(address).ok_or(
        "it must begin with redis://, redis-sentinel:// or redis-cluster://, or the same with rediss or \
         valkey, or redis+unix://",
    )?;
    let url = Url::parse(address).map_err(|error| format!("{error}; {ENCODE}"))?;
    check(&url, kind)?;
    options.check()?;
    if parts::has_user(&url) && (options.server.is_some() || options.provider.is_some()) {
        return Err("it has a user, and so have the options; remove one of them".to_owned());
    }
    if options.sentinel.is_some() && kind != Kind::Sentinels {
        return Err("the options have sentinel credentials; use redis-sentinel:// or remove them"
            .to_owned());
    }
    let mut config = Config {
        username: decoded(url.username())?,
        password: decoded(url.password().unwrap_or_default())?,
        // Keeps trying if the first attempt fails.
        fail_fast: false,
        ..Config::default()
    };
    encrypt(&mut config, encrypted, options)?;
    if let Some(credentials) = &options.server {
        credentials.set(&mut config);
    }
    let database = match kind {
        Kind::Unix => parameter(&url, "db").unwrap_or_default(),
        _ => url.path().strip_prefix('/').unwrap_or_default().to_owned(),
    };
    if !database.is_empty() {
        let number = database.parse().map_err(|_| "the database is not a number from 0 to 255")?;
        config.database = Some(number);
    }
    let servers = match kind {
        Kind::Unix => {
            config.server = socket(&url)?;
            Servers::One
        }
        Kind::One => {
            config.server = ServerConfig::Centralized { server: parts::server(&url)? };
            Servers::One
        }
        Kind::Cluster => {
            if config.database.take().is_some_and(|number| number != 0) {
                return Err("a cluster has only database 0; remove the path".to_owned());
            }
            Servers::Cluster(hosts(&url)?)
        }
        Kind::Sentinels => {
            let primary = parameter(&url, "sentinelServiceName")
                .ok_or("sentinelServiceName is missing; add ?sentinelServiceName=NAME")?;
            let mut of_sentinels = Config {
                username: parameter(&url, "sentinelUsername"),
                password: parameter(&url, "sentinelPassword"),
                database: None,
                ..config.clone()
            };
            if let Some(credentials) = &options.sentinel {
                credentials.set(&mut of_sentinels);
            }
            Servers::Sentinels { hosts: hosts(&url)?, primary, config: Box::new(of_sentinels) }
        }
    };
    Ok((config, servers))
}

/// Returns what is wrong with a URL that can be parsed, which the parser does not know.
fn check(url: &Url, kind: Kind) -> Result<(), String> {
    if parts::is_misread(url) {
        return Err(format!("an \"@\" is behind the host; {ENCODE}"));
    }
    if url.fragment().is_some() {
        return Err("it has a fragment; remove \"#\" and what follows".to_owned());
    }
    if !url.username().is_empty() && url.password().is_none() {
        return Err("the user has no password; write redis://user:password@host, or \
                    redis://:password@host for the default user"
            .to_owned());
    }
    let known = kind.parameters();
    if url.query_pairs().any(|(name, _)| !known.contains(&&*name)) {
        return Err(match known {
            [] => "it has parameters; remove \"?\" and what follows".to_owned(),
            _ => format!(
                "a parameter is unknown; expected {}, with an \"&\" in a value as %26",
                known.join(" or ")
            ),
        });
    }
    Ok(())
}

/// Returns the server of the address, and those of its parameters.
fn hosts(url: &Url) -> Result<Vec<Server>, String> {
    let nodes = url.query_pairs().filter(|(name, _)| name == "node").map(|(_, value)| {
        let node = parts::node(&value).filter(|node| !parts::has_user(node));
        parts::server(&node.ok_or("a node is not of the form host:port")?)
    });
    iter::once(parts::server(url)).chain(nodes).collect()
}

/// Returns the Unix socket at the path of a URL.
fn socket(url: &Url) -> Result<ServerConfig, String> {
    if url.has_host() || url.path().is_empty() {
        return Err(
            "a Unix socket has no host or user; write redis+unix:///run/redis.sock, and set \
                    the user in the options"
                .to_owned(),
        );
    }
    #[cfg(feature = "unix-sockets")]
    return Ok(ServerConfig::Unix { path: decoded(url.path())?.unwrap_or_default().into() });
    #[cfg(not(feature = "unix-sockets"))]
    Err("Unix sockets need the feature `unix-sockets` of limiter-redis; enable it".to_owned())
}

#[cfg(feature = "tls")]
fn encrypt(config: &mut Config, encrypted: bool, options: &ConnectOptions) -> Result<(), String> {
    let tls = match (&options.tls, encrypted) {
        (Some(tls), true) => TlsConnector::clone(tls),
        (None, true) => super::tls::trusting_the_system().map_err(|error| error.to_string())?,
        (Some(_), false) => {
            return Err("the options have TLS settings; use rediss:// or remove them".to_owned());
        }
        (None, false) => return Ok(()),
    };
    config.tls = Some(tls.into());
    Ok(())
}

#[cfg(not(feature = "tls"))]
fn encrypt(_: &mut Config, encrypted: bool, _: &ConnectOptions) -> Result<(), String> {
    if encrypted {
        return Err("TLS needs the feature `tls` of limiter-redis; enable it".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Address {
        Address::parse(url, &ConnectOptions::new()).unwrap()
    }

    #[test]
    fn one_server_has_a_user_a_password_and_a_database() {
        let address = parse("valkey://user:p%40ss@host:7000/3");
        assert_eq!(address.url, "valkey://***@host:7000/3");
        assert_eq!(address.config.username.as_deref(), Some("user"));
        assert_eq!(address.config.password.as_deref(), Some("p@ss"));
        assert_eq!(address.config.database, Some(3));
        assert!(matches!(address.servers, Servers::One));
    }

    #[test]
    fn the_nodes_of_a_cluster_are_asked_in_their_order() {
        let address = parse("redis-cluster://a:1?node=b:2&node=c:3");
        let expected = [("a", 1), ("b", 2), ("c", 3)].map(|(host, port)| Server::new(host, port));
        assert!(matches!(address.servers, Servers::Cluster(nodes) if nodes == expected));
    }

    #[test]
    fn a_cluster_has_one_database() {
        for url in
            ["redis-cluster://a", "redis-cluster://u:p@a:1/", "valkey-cluster://a/0?node=b:2"]
        {
            assert!(matches!(parse(url).servers, Servers::Cluster(_)), "{url}");
        }
        for url in ["redis-cluster://a/3", "redis-cluster://u:p@a:1/01?node=b:2"] {
            let error = Address::parse(url, &ConnectOptions::new()).err().unwrap().to_string();
            assert!(error.ends_with(": a cluster has only database 0; remove the path"), "{error}");
        }
    }

    #[test]
    fn sentinels_have_credentials_of_their_own() {
        let url = "redis-sentinel://u:p@a:1?sentinelServiceName=main&node=b:2";
        let options = ConnectOptions::new().with_sentinel_credentials("default", "secret");
        let address = Address::parse(url, &options).unwrap();
        let Servers::Sentinels { hosts, primary, config } = address.servers else {
            panic!("another kind")
        };
        assert_eq!(hosts, [Server::new("a", 1), Server::new("b", 2)]);
        assert_eq!(primary, "main");
        let credentials = |config: &Config| (config.username.clone(), config.password.clone());
        let pair = |user: &str, password: &str| (Some(user.to_owned()), Some(password.to_owned()));
        assert_eq!(credentials(&config), pair("default", "secret"));
        assert_eq!(credentials(&address.config), pair("u", "p"));
        assert!(!format!("{options:?}").contains("secret"));

        let error = Address::parse("redis://a", &options).err().unwrap().to_string();
        assert!(error.contains(": the options have sentinel credentials; "), "{error}");
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn tls_names_the_feature_that_it_needs() {
        let error = Address::parse("valkeys://host", &ConnectOptions::new()).err().unwrap();
        let message = "invalid server address \"valkeys://host\": TLS needs the feature `tls` of limiter-redis; enable it";
        assert_eq!(error.to_string(), message);
    }

    fn fault(url: &str) -> String {
        let error = Address::parse(url, &ConnectOptions::new()).err().unwrap().to_string();
        assert!(!error.contains("secret"), "{error}");
        let (_, why) = error.split_once("\": ").unwrap();
        why.to_owned()
    }

    #[test]
    fn addresses_that_would_be_misread_are_refused() {
        for (url, expected) in [
            (
                "redis://alice@host",
                "the user has no password; write redis://user:password@host, or \
                 redis://:password@host for the default user",
            ),
            ("redis://host#1", "it has a fragment; remove \"#\" and what follows"),
            ("redis://host?timeout=5", "it has parameters; remove \"?\" and what follows"),
            (
                "redis-cluster://a:1?nodes=b:2",
                "a parameter is unknown; expected node, with an \"&\" in a value as %26",
            ),
            (
                "redis-sentinel://a:1?serviceName=x",
                "a parameter is unknown; expected node or sentinelServiceName or sentinelUsername or \
                 sentinelPassword, with an \"&\" in a value as %26",
            ),
            (
                "redis-sentinel://a:1",
                "sentinelServiceName is missing; add ?sentinelServiceName=NAME",
            ),
            ("redis-cluster://a:1?node=u:secret@b:2", "a node is not of the form host:port"),
            ("redis-cluster://a:1?node=b:secret", "a node is not of the form host:port"),
            ("redis://host:0", "the port is 0; use 1 to 65535"),
            ("redis://", "the host is missing; write redis://host:6379"),
            ("redis://host/zero", "the database is not a number from 0 to 255"),
            ("redis://host/256", "the database is not a number from 0 to 255"),
            ("redis://:%FF@host", "a part is not UTF-8 without its percent encoding"),
        ] {
            assert_eq!(fault(url), expected, "{url}");
        }
        for url in [
            "redis://u:se/secret@host",
            "redis://u:se?secret@host",
            "redis://u:se#secret@host",
            "redis://u:12/secret@host",
            "redis://u:12?secret@host",
            "redis://u:12#secret@host",
            "redis://host:port",
            "redis://:6379",
            "redis://u:secret@ho st",
        ] {
            assert!(fault(url).ends_with(&format!("; {ENCODE}")), "{url}: {}", fault(url));
        }
        assert!(fault("http://host").starts_with("it must begin with redis://, "));
    }

    #[test]
    fn credentials_stand_in_the_address_or_in_the_options() {
        let options = ConnectOptions::new().with_credentials("alice", "secret");
        let address = Address::parse("redis://host", &options).unwrap();
        assert_eq!(address.config.username.as_deref(), Some("alice"));
        assert_eq!(address.config.password.as_deref(), Some("secret"));
        assert!(!format!("{options:?}").contains("secret"));
        let both = Address::parse("redis://u:p@host", &options).err().unwrap().to_string();
        assert!(both.ends_with("it has a user, and so have the options; remove one of them"));
        let address = parse("redis://:only%2Fword@[::1]:7000/2");
        assert_eq!(address.config.username, None);
        assert_eq!(address.config.password.as_deref(), Some("only/word"));
    }

    #[cfg(feature = "unix-sockets")]
    #[test]
    fn a_unix_socket_has_a_path_and_a_database() {
        let address = parse("unix:///run/a b.sock?db=3");
        let ServerConfig::Unix { path } = address.config.server else { panic!("another kind") };
        assert_eq!(path.to_str(), Some("/run/a b.sock"));
        assert_eq!(address.config.database, Some(3));
        for (url, expected) in [
            (
                "redis+unix://u:secret@host/run/redis.sock",
                "a Unix socket has no host or user; write redis+unix:///run/redis.sock, and set the \
                 user in the options",
            ),
            ("unix:///run/redis.sock?db=256", "the database is not a number from 0 to 255"),
            (
                "unix:///run/redis.sock?user=a",
                "a parameter is unknown; expected db, with an \"&\" in a value as %26",
            ),
        ] {
            assert_eq!(fault(url), expected, "{url}");
        }
    }

    #[cfg(not(feature = "unix-sockets"))]
    #[test]
    fn a_unix_socket_names_the_feature_that_it_needs() {
        let why = "Unix sockets need the feature `unix-sockets` of limiter-redis; enable it";
        assert_eq!(fault("unix:///run/redis.sock"), why);
    }
}
