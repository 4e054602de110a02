//! The parts of an address, by the crate `url`.

use fred::types::config::Server;
use percent_encoding::percent_decode_str;
use url::Url;

/// The parameters that addresses of any kind may have.
pub(super) const PARAMETERS: [&str; 5] =
    ["node", "db", "sentinelServiceName", "sentinelUsername", "sentinelPassword"];

/// How the servers of an address are found.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    One,
    Sentinels,
    Cluster,
    Unix,
}

impl Kind {
    /// Returns what the scheme of an address means: whether connections are encrypted, and the kind.
    pub(super) fn of_scheme(address: &str) -> Option<(bool, Self)> {
        let (scheme, _) = address.split_once("://")?;
        if scheme == "unix" {
            return Some((false, Self::Unix));
        }
        let rest = scheme.strip_prefix("redis").or_else(|| scheme.strip_prefix("valkey"))?;
        let (encrypted, kind) = rest.strip_prefix('s').map_or((false, rest), |kind| (true, kind));
        Some(match kind {
            "" => (encrypted, Self::One),
            "-sentinel" => (encrypted, Self::Sentinels),
            "-cluster" => (encrypted, Self::Cluster),
            "+unix" if !encrypted => (false, Self::Unix),
            _ => return None,
        })
    }

    /// Returns the parameters that it has.
    pub(super) const fn parameters(self) -> &'static [&'static str] {
        match self {
            Self::One => &[],
            Self::Sentinels => {
                &["node", "sentinelServiceName", "sentinelUsername", "sentinelPassword"]
            }
            Self::Cluster => &["node"],
            Self::Unix => &["db"],
        }
    }
}

/// Returns the server that a URL names.
pub(super) fn server(url: &Url) -> Result<Server, String> {
    let host = url.host_str().filter(|host| !host.is_empty());
    let host = host.ok_or("the host is missing; write redis://host:6379")?;
    match url.port() {
        Some(0) => Err("the port is 0; use 1 to 65535".to_owned()),
        port => Ok(Server::new(host, port.unwrap_or(6379))),
    }
}

/// Returns the URL of a node in a parameter, which has a host and perhaps a port.
pub(super) fn node(value: &str) -> Option<Url> {
    let url = Url::parse(&format!("redis://{value}")).ok()?;
    let has_host_only = url.has_host() && url.path().is_empty() && url.query().is_none();
    (has_host_only && url.fragment().is_none()).then_some(url)
}

/// Returns the value of a parameter.
pub(super) fn parameter(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(other, _)| other == name).map(|(_, value)| value.into_owned())
}

/// Returns a part without its percent encoding, or `None` if it is empty.
pub(super) fn decoded(part: &str) -> Result<Option<String>, String> {
    let decoded = percent_decode_str(part).decode_utf8();
    let decoded = decoded.map_err(|_| "a part is not UTF-8 without its percent encoding")?;
    Ok((!decoded.is_empty()).then(|| decoded.into_owned()))
}

pub(super) fn has_user(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

/// Returns whether an `@` is where none belongs, because a user or password has a character that must be
/// percent-encoded. The host is then a part of them.
pub(super) fn is_misread(url: &Url) -> bool {
    let is_unknown = |name: &str| !PARAMETERS.contains(&name);
    let has_at = |part: &str| part.contains('@');
    has_at(url.path())
        || url.fragment().is_some_and(has_at)
        || url
            .query_pairs()
            .any(|(name, value)| is_unknown(&name) && (has_at(&name) || has_at(&value)))
}
