//! The address of a server: which servers, how they are found, and how they are spoken to.

mod parts;

use fred::types::config::Config;
use limiter_core::{Error, ErrorKind};

use self::parts::{Parts, decoded};
pub(crate) use self::parts::{Servers, redacted};
use super::options::ConnectOptions;

/// A valid address.
pub(crate) struct Address {
    pub(crate) servers: Servers,
    /// The library's settings of servers, without their address.
    pub(crate) config: Config,
    /// Those of sentinels.
    pub(crate) sentinel_config: Config,
    /// The address without users and passwords, for errors and log lines.
    pub(crate) url: String,
}

impl Address {
    /// Returns the servers and the database, which have the states, however the address is written.
    pub(crate) fn store(&self) -> String {
        format!("{:?} {:?}", self.servers, self.config.database)
    }

    /// Parses an address such as `redis://user:password@host:6379`.
    pub(crate) fn parse(url: &str, options: &ConnectOptions) -> Result<Self, Error> {
        Self::read(url, options).map_err(|why| {
            let message = format!("invalid server address {:?}: {why}", redacted(url));
            Error::new(ErrorKind::InvalidSetting, message)
        })
    }

    /// Returns the address, or what is wrong with it or the options and what to do.
    fn read(address: &str, options: &ConnectOptions) -> Result<Self, String> {
        let Parts { url, is_encrypted, database, servers } = Parts::of(address)?;
        options.check()?;
        let users = [parts::has_user(&url), options.server.is_some(), options.provider.is_some()];
        if users.into_iter().filter(|is_given| *is_given).count() > 1 {
            return Err("several of the address, the credentials and the provider of credentials have a user; keep \
                        one of them"
                .to_owned());
        }
        if options.sentinel.is_some() && !matches!(servers, Servers::Sentinels { .. }) {
            return Err(
                "the options have sentinel credentials; use redis-sentinel:// or remove them"
                    .to_owned(),
            );
        }
        let mut sentinel_config = Config::default();
        #[cfg(feature = "tls")]
        if is_encrypted {
            let tls = options.tls.clone().map_or_else(super::tls::trusting_the_system, Ok);
            sentinel_config.tls = Some(tls.map_err(|error| error.to_string())?.into());
        } else if options.tls.is_some() {
            return Err("the options have TLS settings; use rediss:// or remove them".to_owned());
        }
        #[cfg(not(feature = "tls"))]
        if is_encrypted {
            return Err("TLS needs the feature `tls` of limiter-redis; enable it".to_owned());
        }
        let mut config = Config {
            username: decoded(url.username())?,
            password: decoded(url.password().unwrap_or_default())?,
            database,
            ..sentinel_config.clone()
        };
        if let Some(credentials) = &options.server {
            credentials.set(&mut config);
        }
        if let Some(credentials) = &options.sentinel {
            credentials.set(&mut sentinel_config);
        }
        Ok(Self { servers, config, sentinel_config, url: redacted(address) })
    }
}

#[cfg(test)]
mod tests {
    use fred::types::config::{Server, ServerConfig};

    use super::{parts::ENCODE, *};

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
        let expected = ServerConfig::Centralized { server: Server::new("host", 7000) };
        assert!(matches!(address.servers, Servers::One(server) if server == expected));
    }

    #[test]
    fn one_address_can_be_written_in_several_ways() {
        let store = |url| parse(url).store();
        for same in ["redis://host:6379", "valkey://host", "redis://host/0", "redis://:p@host"] {
            assert_eq!(store(same), store("redis://host"), "{same}");
        }
        for other in ["redis://host:1", "redis://host/1", "redis-cluster://host"] {
            assert_ne!(store(other), store("redis://host"), "{other}");
        }
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
        let Servers::Sentinels { hosts, primary } = address.servers else { panic!("another kind") };
        assert_eq!(hosts, [Server::new("a", 1), Server::new("b", 2)]);
        assert_eq!(primary, "main");
        let credentials = |config: &Config| (config.username.clone(), config.password.clone());
        let pair = |user: &str, password: &str| (Some(user.to_owned()), Some(password.to_owned()));
        assert_eq!(credentials(&address.sentinel_config), pair("default", "secret"));
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
                "a parameter is unknown; expected node or sentinelServiceName, with an \"&\" in a value as %26",
            ),
            (
                "redis-sentinel://a:1",
                "sentinelServiceName is missing; add ?sentinelServiceName=NAME",
            ),
            ("redis-cluster://a:1?node=u:secret%40b:2", "a node is not of the form host:port"),
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
            "redis-cluster://a:1?node=u:secret@b:2",
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
        assert!(both.ends_with(" of credentials have a user; keep one of them"), "{both}");
        let address = parse("redis://:only%2Fword@[::1]:7000/2");
        assert_eq!(address.config.username, None);
        assert_eq!(address.config.password.as_deref(), Some("only/word"));
    }

    #[cfg(feature = "unix-sockets")]
    #[test]
    fn a_unix_socket_has_a_path_and_a_database() {
        let address = parse("unix:///run/a b.sock?db=3");
        let Servers::One(ServerConfig::Unix { path }) = address.servers else {
            panic!("another kind")
        };
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
