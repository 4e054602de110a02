//! What an address says apart from its user and password, by the crate `url`, and the address without any value that may be
//! secret, for errors and log lines.

use std::iter;

use fred::types::config::{Server, ServerConfig};
use percent_encoding::percent_decode_str;
use url::{Position, Url};

/// How to write a user or a password.
pub(super) const ENCODE: &str = "write redis://user:password@host:6379, and a \"/\", \"?\", \"#\" or \"@\" in a user \
                                 or password as %2F, %3F, %23 or %40";

/// How the servers of an address are found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    One,
    Sentinels,
    Cluster,
    Unix,
}

/// A valid address, apart from its user and password.
pub(super) struct Parts {
    pub(super) url: Url,
    pub(super) is_encrypted: bool,
    pub(super) database: Option<u8>,
    pub(super) servers: Servers,
}

/// How the servers are found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Servers {
    /// There is this one.
    One(ServerConfig),
    /// By these sentinels, which watch a primary of this name.
    Sentinels { hosts: Vec<Server>, primary: String },
    /// By these nodes of a cluster.
    Cluster(Vec<Server>),
}

impl Parts {
    /// Returns the parts of an address, or what is wrong with it and what to do.
    pub(super) fn of(address: &str) -> Result<Self, String> {
        let (is_encrypted, kind) = of_scheme(address).ok_or(
            "it must begin with redis://, redis-sentinel:// or redis-cluster://, or the same with rediss or \
             valkey, or redis+unix://",
        )?;
        let url = Url::parse(address).map_err(|error| format!("{error}; {ENCODE}"))?;
        check(&url, kind)?;
        let database = match kind {
            Kind::Unix => parameter(&url, "db"),
            _ => url.path().strip_prefix('/').map(str::to_owned),
        };
        let number = database.filter(|text| !text.is_empty()).map(|text| text.parse());
        let database =
            number.transpose().map_err(|_| "the database is not a number from 0 to 255")?;
        // The one of a new connection needs no command.
        let database = database.filter(|number| *number != 0);
        let servers = match kind {
            Kind::Unix => Servers::One(socket(&url)?),
            Kind::One => Servers::One(ServerConfig::Centralized { server: server(&url)? }),
            Kind::Cluster if database.is_some() => {
                return Err("a cluster has only database 0; remove the path".to_owned());
            }
            Kind::Cluster => Servers::Cluster(hosts(&url)?),
            Kind::Sentinels => {
                let primary = parameter(&url, "sentinelServiceName")
                    .ok_or("sentinelServiceName is missing; add ?sentinelServiceName=NAME")?;
                Servers::Sentinels { hosts: hosts(&url)?, primary }
            }
        };
        Ok(Self { url, is_encrypted, database, servers })
    }
}

/// Returns what the scheme of an address means: whether connections are encrypted, and the kind.
pub(super) fn of_scheme(address: &str) -> Option<(bool, Kind)> {
    let (scheme, _) = address.split_once("://")?;
    let scheme = if scheme == "unix" { "redis+unix" } else { scheme };
    let rest = scheme.strip_prefix("redis").or_else(|| scheme.strip_prefix("valkey"))?;
    let (is_encrypted, kind) = rest.strip_prefix('s').map_or((false, rest), |kind| (true, kind));
    Some(match kind {
        "" => (is_encrypted, Kind::One),
        "-sentinel" => (is_encrypted, Kind::Sentinels),
        "-cluster" => (is_encrypted, Kind::Cluster),
        "+unix" if !is_encrypted => (false, Kind::Unix),
        _ => return None,
    })
}

/// Returns what is wrong with a URL that can be parsed, which the parser does not know.
fn check(url: &Url, kind: Kind) -> Result<(), String> {
    if is_misread(url) {
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
    let known: &[&str] = match kind {
        Kind::One => &[],
        Kind::Sentinels => &["node", "sentinelServiceName"],
        Kind::Cluster => &["node"],
        Kind::Unix => &["db"],
    };
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

/// Returns whether an `@` is where none belongs, because a user or password has a character that must be
/// percent-encoded. The host is then a part of them.
pub(super) fn is_misread(url: &Url) -> bool {
    url[Position::BeforePath..].contains('@')
}

pub(super) fn has_user(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// Returns a part without its percent encoding, or `None` if it is empty.
pub(super) fn decoded(part: &str) -> Result<Option<String>, String> {
    let decoded = percent_decode_str(part).decode_utf8();
    let decoded = decoded.map_err(|_| "a part is not UTF-8 without its percent encoding")?;
    Ok((!decoded.is_empty()).then(|| decoded.into_owned()))
}

/// Returns the value of a parameter.
fn parameter(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(other, _)| other == name).map(|(_, value)| value.into_owned())
}

/// Returns the server of the address, and those of its parameters.
fn hosts(url: &Url) -> Result<Vec<Server>, String> {
    let nodes = url.query_pairs().filter(|(name, _)| name == "node").map(|(_, value)| {
        let node = Url::parse(&format!("redis://{value}")).ok();
        let is_host = |node: &Url| !has_user(node) && node[Position::AfterPort..].is_empty();
        server(&node.filter(is_host).ok_or("a node is not of the form host:port")?)
    });
    iter::once(server(url)).chain(nodes).collect()
}

/// Returns the server that a URL names.
fn server(url: &Url) -> Result<Server, String> {
    let host = url.host_str().filter(|host| !host.is_empty());
    let host = host.ok_or("the host is missing; write redis://host:6379")?;
    match url.port() {
        Some(0) => Err("the port is 0; use 1 to 65535".to_owned()),
        port => Ok(Server::new(host, port.unwrap_or(6379))),
    }
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

/// What is shown in place of a value that may be secret.
const HIDDEN: &str = "***";

/// Returns a valid address without its user and password. Of an invalid one, the scheme, the host and the port are
/// shown: all else may be a user or a password that was written in the wrong place. If these may be, too, only the
/// scheme is shown.
pub(crate) fn redacted(address: &str) -> String {
    let is_known = of_scheme(address).is_some();
    let Some((scheme, _)) = address.split_once("://").filter(|_| is_known) else {
        return HIDDEN.to_owned();
    };
    let scheme_only = format!("{scheme}://{HIDDEN}");
    let Ok(mut url) = Url::parse(address) else { return scheme_only };
    let has_user = has_user(&url);
    let is_shown = !has_user || url.set_password(None).and(url.set_username(HIDDEN)).is_ok();
    if !is_shown || is_misread(&url) {
        return scheme_only;
    }
    if Parts::of(address).is_ok() || url[Position::AfterPort..].is_empty() {
        return url.into();
    }
    format!("{}/{HIDDEN}", &url[..Position::AfterPort])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_harmless_is_shown() {
        for url in [
            "redis://host",
            "rediss://host.example-1.com:6379/15",
            "valkey://[2001:db8::1]:6379",
            "redis-sentinel://a:1?sentinelServiceName=main&node=b:2",
            "redis-cluster://a:1?node=b:2&node=[::1]:3",
            "redis+unix:///run/redis%20server.sock?db=3",
        ] {
            assert_eq!(redacted(url), url);
        }
    }

    #[test]
    fn what_may_be_secret_is_hidden() {
        for (url, shown) in [
            ("redis://u:secret@host:1/3", "redis://***@host:1/3"),
            ("redis://u:sec@secret@host", "redis://***@host"),
            ("redis://u:secret", "redis://***"),
            ("redis://u:12/secret@host", "redis://***"),
            ("redis://u:12?x=secret@host", "redis://***"),
            ("redis://u:12#secret@host", "redis://***"),
            ("redis://host/secret", "redis://host/***"),
            ("redis://host?secret", "redis://host/***"),
            ("redis://host?pasword=secret", "redis://host/***"),
            ("redis://host?password=a&secret=b", "redis://host/***"),
            (
                "redis-sentinel://u:secret@host?sentinelServiceName=main&sentinelPassword=secret",
                "redis-sentinel://***@host/***",
            ),
            ("redis-cluster://a?node=u:secret@b:2", "redis-cluster://***"),
            ("redis-cluster://a:1?node=u:secret%40b:2", "redis-cluster://a:1/***"),
            ("redis-cluster://a:1?node=b:secret", "redis-cluster://a:1/***"),
            ("redis+unix://u:secret@host/path", "redis+unix://***@host/***"),
            ("redis+unix:///path?password=secret", "redis+unix:///***"),
            ("redis://u:sec/ret", "redis://***"),
            ("u:secret@host", "***"),
            ("redis:/u:secret@host", "***"),
            ("u:secret://secret@host", "***"),
            ("secret://host", "***"),
        ] {
            assert_eq!(redacted(url), shown, "{url}");
        }
    }
}
