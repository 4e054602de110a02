//! The address of a server: which servers, how they are found, and how they are spoken to.

mod check;
mod parameters;
mod redact;
mod unix;

use std::mem;

#[cfg(feature = "tls")]
use fred::types::config::TlsConnector;
use fred::types::config::{Config, Server, ServerConfig};
use limiter_core::{Error, ErrorKind};

use self::check::Parts;
pub(crate) use self::redact::redacted;
use super::{credentials::Provider, options::ConnectOptions};

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

/// Returns the settings and the servers, or what is wrong with an address and what to do.
fn read(url: &str, options: &ConnectOptions) -> Result<(Config, Servers), String> {
    let Parts { encrypted, kind, rest, has_user, path } = Parts::of(url)?;
    let mut config = if kind == "+unix" {
        unix::config(rest)?
    } else {
        // Without the library's own choice of certificates. Behind a colon, its error quotes a node, which may
        // have a user and a password.
        let config = Config::from_url(&format!("redis{kind}://{rest}"));
        config.map_err(|error| error.details().split(": ").next().unwrap_or_default().to_owned())?
    };
    if let Some(name) = &options.name
        && (name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic()))
    {
        return Err(format!(
            "the name {name:?} in the options is not printable ASCII without spaces"
        ));
    }
    if let Some(provider) = &options.provider
        && provider.renewal < Provider::SHORTEST
    {
        let Provider { renewal, .. } = &**provider;
        return Err(format!(
            "the renewal of credentials in the options is {renewal:?}; use 1 ms or more"
        ));
    }
    if options.server.is_some() && options.provider.is_some() {
        return Err("the options have a user and a provider; remove one of them".to_owned());
    }
    // Keeps trying if the first attempt fails.
    config.fail_fast = false;
    encrypt(&mut config, encrypted, options)?;
    if has_user && (options.server.is_some() || options.provider.is_some()) {
        return Err("it has a user, and so have the options; remove one of them".to_owned());
    }
    if let Some(credentials) = &options.server {
        credentials.set(&mut config);
    }
    if options.sentinel.is_some() && kind != "-sentinel" {
        return Err("the options have sentinel credentials; use redis-sentinel:// or remove them"
            .to_owned());
    }
    let servers = match mem::take(&mut config.server) {
        ServerConfig::Clustered { mut hosts, .. } => {
            // The library would ignore another one.
            if !matches!(path, "" | "0") {
                return Err("a cluster has only database 0; remove the path".to_owned());
            }
            // The library puts the first one last.
            hosts.rotate_right(1);
            Servers::Cluster(hosts)
        }
        ServerConfig::Sentinel { mut hosts, service_name: primary, username, password } => {
            hosts.rotate_right(1);
            let mut of_sentinels = Config { username, password, database: None, ..config.clone() };
            if let Some(credentials) = &options.sentinel {
                credentials.set(&mut of_sentinels);
            }
            Servers::Sentinels { hosts, primary, config: Box::new(of_sentinels) }
        }
        server => {
            config.server = server;
            Servers::One
        }
    };
    Ok((config, servers))
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
            ("redis://u:se/secret@host", "a \"/\" in a user or password must be written %2F"),
            ("redis://u:se?secret@host", "a \"?\" in a user or password must be written %3F"),
            ("redis://u:se#secret@host", "a \"#\" in a user or password must be written %23"),
            ("redis://host#1", "it has a fragment; remove \"#\" and what follows"),
            (
                "redis://host?timeout=5",
                "unknown parameter \"timeout\"; this kind of address has none",
            ),
            ("redis-cluster://a:1?nodes=b:2", "unknown parameter \"nodes\"; expected node"),
            (
                "redis-sentinel://a:1?serviceName=x",
                "unknown parameter \"serviceName\"; expected node, sentinelServiceName, \
                 sentinelUsername or sentinelPassword",
            ),
            (
                "redis-sentinel://a:1",
                "sentinelServiceName is missing; add ?sentinelServiceName=NAME",
            ),
            ("redis://host:port", "the port is not a number from 1 to 65535"),
            ("redis://host:0", "the port is not a number from 1 to 65535"),
            ("redis://:6379", "the host is missing; write redis://host:6379"),
            ("redis://host/zero", "the database is not a number"),
        ] {
            assert_eq!(fault(url), expected, "{url}");
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
            ("unix:///run/redis.sock?db=256", "the database is not a number to 255"),
            ("unix:///run/redis.sock?user=a", "unknown parameter \"user\"; expected db"),
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

    #[test]
    fn an_error_of_a_node_shows_no_password() {
        let url = "redis-cluster://u:secret@a:1?node=u:secret@host:2";
        let error = Address::parse(url, &ConnectOptions::new()).err().unwrap().to_string();
        assert!(!error.contains("secret") && error.contains("host"), "{error}");
    }
}
