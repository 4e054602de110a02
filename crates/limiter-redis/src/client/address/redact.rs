//! Addresses for errors and log lines, without any value that may be secret.

use url::Url;

use super::parts::{Kind, has_user, is_misread, node};

/// What is shown in place of a value that may be secret.
const HIDDEN: &str = "***";

/// Returns an address with the parts that are known to be harmless: its scheme, its hosts and ports, its
/// database, the names of its parameters, and the path of a socket. All else may be a user or a password that was
/// written in the wrong place, and is hidden. Of an address that is no URL, only the scheme is shown.
pub(crate) fn redacted(address: &str) -> String {
    let (Some((scheme, _)), Some((_, kind))) =
        (address.split_once("://"), Kind::of_scheme(address))
    else {
        return HIDDEN.to_owned();
    };
    let Ok(url) = Url::parse(address) else { return format!("{scheme}://{HIDDEN}") };
    let is_misread = is_misread(&url);
    let path = match url.path() {
        path if kind == Kind::Unix && !is_misread && !url.has_host() => path,
        path if path.len() <= 4 && path.bytes().skip(1).all(|byte| byte.is_ascii_digit()) => path,
        _ => "/***",
    };
    let server = if is_misread { HIDDEN.to_owned() } else { server(&url) };
    let mut shown = format!("{scheme}://{server}{path}");
    for (index, (name, value)) in url.query_pairs().enumerate() {
        shown.push(if index == 0 { '?' } else { '&' });
        shown += &parameter(&name, &value);
    }
    if url.fragment().is_some() {
        shown += "#***";
    }
    shown
}

/// Returns a parameter, of which only known names and harmless values are shown: a name may be a part of a secret
/// that has an `&`.
fn parameter(name: &str, value: &str) -> String {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let shown = match name {
        "node" => node(value).map(|url| server(&url)),
        "db" => value.parse::<u8>().ok().map(|number| number.to_string()),
        "sentinelServiceName" => value.bytes().all(is_word).then(|| value.to_owned()),
        "sentinelUsername" | "sentinelPassword" => None,
        _ => return HIDDEN.to_owned(),
    };
    format!("{name}={}", shown.as_deref().unwrap_or(HIDDEN))
}

/// Returns the host and the port of a URL, and whether it has a user.
fn server(url: &Url) -> String {
    let user = if has_user(url) { "***@" } else { "" };
    let port = url.port().map_or(String::new(), |port| format!(":{port}"));
    format!("{user}{}{port}", url.host_str().unwrap_or_default())
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
            ("redis://u:12/secret@host", "redis://***/***"),
            ("redis://u:12?x=secret@host", "redis://***?***"),
            ("redis://u:12#secret@host", "redis://***#***"),
            ("redis://host/secret", "redis://host/***"),
            ("redis://host?secret", "redis://host?***"),
            ("redis://host?pasword=secret", "redis://host?***"),
            ("redis://host?password=a&secret=b", "redis://host?***&***"),
            (
                "redis-sentinel://host?sentinelPassword=a@secret&sentinelUsername=secret",
                "redis-sentinel://host?sentinelPassword=***&sentinelUsername=***",
            ),
            (
                "redis-cluster://a?node=u:secret@b:2&node=b:secret",
                "redis-cluster://a?node=***@b:2&node=***",
            ),
            ("redis+unix://u:secret@host/path", "redis+unix://***@host/***"),
            ("redis+unix:///path?password=secret", "redis+unix:///path?***"),
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
