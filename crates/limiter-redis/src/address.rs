//! What an address means: which servers, how they are found, and how they are spoken to.

use fred::types::config::{Config, Server, ServerConfig};
use limiter_core::{Error, ErrorKind};

use crate::options::ConnectOptions;

/// An address that was understood.
pub(crate) struct Address {
    /// The library's settings; for a cluster, those of a node without its address.
    pub(crate) config: Config,
    /// The nodes of a cluster to begin with.
    pub(crate) cluster: Option<Vec<Server>>,
    /// The address, to be shown.
    pub(crate) url: String,
}

impl Address {
    /// Reads an address such as `redis://user:password@host:6379`.
    pub(crate) fn parse(url: &str, options: &ConnectOptions) -> Result<Self, Error> {
        let shown = redacted(url);
        let invalid = |why: &str| {
            Error::new(ErrorKind::InvalidSetting, format!("the server address {shown:?}: {why}"))
        };
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let Some((encrypted, kind)) = parts(scheme) else {
            return Err(invalid(
                "it must begin with redis://, redis-sentinel:// or redis-cluster://, or the same \
                 with rediss or valkey",
            ));
        };
        // Without the library's own choice of certificates.
        let plain = format!("redis{kind}://{rest}");
        let mut config = Config::from_url(&plain).map_err(|error| {
            // It may quote a node, with a user and a password that don't belong there.
            invalid(&redacted(error.details()))
        })?;
        // Goes on trying where the first attempt fails.
        config.fail_fast = false;
        encrypt(&mut config, encrypted, options).map_err(|why| invalid(&why))?;

        let mut cluster = None;
        match &mut config.server {
            ServerConfig::Clustered { hosts, .. } => {
                // The library would ignore another one.
                if !matches!(path(rest), "" | "0") {
                    return Err(invalid("a cluster has no other database than 0"));
                }
                // The library puts the first one last.
                hosts.rotate_right(1);
                cluster = Some(std::mem::take(hosts));
            }
            ServerConfig::Sentinel { hosts, username, password, .. } => {
                hosts.rotate_right(1);
                if let Some(credentials) = &options.sentinel {
                    *username = Some(credentials.username.clone());
                    *password = Some(credentials.password.clone());
                }
            }
            ServerConfig::Centralized { .. } => {}
        }
        if options.sentinel.is_some() && kind != "-sentinel" {
            return Err(invalid("there are credentials for sentinels, and no sentinels"));
        }
        Ok(Self { config, cluster, url: shown })
    }
}

/// Returns whether a scheme asks for TLS, and what it ends with, if it is known.
fn parts(scheme: &str) -> Option<(bool, &str)> {
    let rest = scheme.strip_prefix("redis").or_else(|| scheme.strip_prefix("valkey"))?;
    let (encrypted, kind) = rest.strip_prefix('s').map_or((false, rest), |kind| (true, kind));
    matches!(kind, "" | "-sentinel" | "-cluster").then_some((encrypted, kind))
}

/// Returns the path of what comes behind a scheme, without its slash.
fn path(rest: &str) -> &str {
    let before_query = rest.split(['?', '#']).next().unwrap_or_default();
    before_query.split_once('/').map_or("", |(_, path)| path)
}

#[cfg(feature = "tls")]
fn encrypt(config: &mut Config, encrypted: bool, options: &ConnectOptions) -> Result<(), String> {
    let tls = match (&options.tls, encrypted) {
        (Some(tls), true) => tls.clone(),
        (None, true) => crate::tls::trusting_the_system().map_err(|error| error.to_string())?,
        (Some(_), false) => {
            return Err("there are settings for TLS, and it does not begin with rediss".to_owned());
        }
        (None, false) => return Ok(()),
    };
    config.tls = Some(tls.into());
    Ok(())
}

#[cfg(not(feature = "tls"))]
fn encrypt(_: &mut Config, encrypted: bool, _: &ConnectOptions) -> Result<(), String> {
    if encrypted {
        return Err("TLS needs the feature `tls` of limiter-redis".to_owned());
    }
    Ok(())
}

/// The query of an address that has to be hidden.
const SECRETS: [&str; 2] = ["sentinelPassword=", "sentinelUsername="];

/// Hides the users and the passwords.
fn redacted(url: &str) -> String {
    let mut shown = url.to_owned();
    for secret in SECRETS {
        let mut seen = 0;
        while let Some(at) = shown.get(seen..).and_then(|rest| rest.find(secret)) {
            let begin = seen + at + secret.len();
            let length = shown.get(begin..).unwrap_or_default().find('&');
            let end = length.map_or(shown.len(), |length| begin + length);
            shown.replace_range(begin..end, "***");
            seen = begin;
        }
    }
    // Without a scheme, all of it may be a user and a password.
    let is_word =
        |scheme: &str| scheme.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
    let scheme = shown.split_once("://").filter(|(scheme, _)| is_word(scheme));
    let begin = scheme.map_or(0, |(scheme, _)| scheme.len() + "://".len());
    if let Some(at) = shown.rfind('@')
        && begin <= at
    {
        shown.replace_range(begin..at, "***");
    }
    shown
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
        assert!(address.cluster.is_none());
    }

    #[test]
    fn the_nodes_of_a_cluster_are_asked_in_their_order() {
        let address = parse("redis-cluster://a:1?node=b:2&node=c:3");
        let expected = [("a", 1), ("b", 2), ("c", 3)].map(|(host, port)| Server::new(host, port));
        assert_eq!(address.cluster.unwrap(), expected);
    }

    #[test]
    fn a_cluster_has_one_database() {
        for url in
            ["redis-cluster://a", "redis-cluster://u:p@a:1/", "valkey-cluster://a/0?node=b:2"]
        {
            assert!(parse(url).cluster.is_some(), "{url}");
        }
        for url in ["redis-cluster://a/3", "redis-cluster://u:p@a:1/01?node=b:2"] {
            let error = Address::parse(url, &ConnectOptions::new()).err().unwrap().to_string();
            assert!(error.ends_with(": a cluster has no other database than 0"), "{error}");
        }
    }

    #[test]
    fn sentinels_have_credentials_of_their_own() {
        let url = "redis-sentinel://u:p@a:1?sentinelServiceName=main&node=b:2";
        let options = ConnectOptions::new().with_sentinel_credentials("default", "secret");
        let address = Address::parse(url, &options).unwrap();
        let ServerConfig::Sentinel { hosts, service_name, username, password } =
            address.config.server
        else {
            panic!("another kind")
        };
        assert_eq!(hosts, [Server::new("a", 1), Server::new("b", 2)]);
        assert_eq!(service_name, "main");
        assert_eq!((username.as_deref(), password.as_deref()), (Some("default"), Some("secret")));
        assert!(!format!("{options:?}").contains("secret"));

        let error = Address::parse("redis://a", &options).err().unwrap().to_string();
        assert!(
            error.ends_with("there are credentials for sentinels, and no sentinels"),
            "{error}"
        );
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn tls_names_the_feature_that_it_needs() {
        let error = Address::parse("valkeys://host", &ConnectOptions::new()).err().unwrap();
        let message =
            "the server address \"valkeys://host\": TLS needs the feature `tls` of limiter-redis";
        assert_eq!(error.to_string(), message);
    }

    #[test]
    fn no_password_is_ever_shown() {
        for url in [
            "redis://u:secret@host",
            "redis://u:sec@secret@host",
            "redis-sentinel://u:secret@host?sentinelServiceName=x&sentinelPassword=secret",
            "redis-sentinel://host?sentinelPassword=a@secret&sentinelUsername=secret",
            "redis-sentinel://host?sentinelPassword=secret&sentinelPassword=secret",
            "u:secret@host",
            "redis:/u:secret@host",
            "u:secret://secret@host",
        ] {
            assert!(!redacted(url).contains("secret"), "{}", redacted(url));
            assert!(redacted(url).contains("host"), "{}", redacted(url));
        }
        let url = "redis-cluster://u:secret@a:1?node=u:secret@host:2";
        let error = Address::parse(url, &ConnectOptions::new()).err().unwrap().to_string();
        assert!(!error.contains("secret") && error.contains("host"), "{error}");
    }
}
