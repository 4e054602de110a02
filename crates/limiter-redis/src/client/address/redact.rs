//! Addresses for errors and log lines, without any value that may be secret.

use super::{
    check::scheme_of,
    parameters::{HIDDEN, parameters, server, split},
};

/// Returns an address with the parts that are known to be harmless: its scheme, its hosts and ports, its
/// database, the names of its parameters, and the path of a socket. All else may be a user or a password that was
/// written in the wrong place, and is hidden.
pub(crate) fn redacted(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return HIDDEN.to_owned() };
    let Some((_, kind)) = scheme_of(scheme) else { return HIDDEN.to_owned() };
    let (before_fragment, fragment) = split(rest, '#');
    let (before_query, query) = split(before_fragment, '?');
    let query = parameters(query);
    let is_misread =
        fragment.contains('@') || query.iter().any(|it| !it.is_known() && it.text.contains('@'));
    let mut shown = format!("{scheme}://");
    if kind == "+unix" {
        let is_path = before_query.starts_with('/') && !before_query.contains('@') && !is_misread;
        shown += if is_path { before_query } else { HIDDEN };
    } else {
        let (authority, path) = split(before_query, '/');
        // A user or password that is not percent-encoded may end the authority too early.
        shown +=
            &if is_misread || path.contains('@') { HIDDEN.to_owned() } else { server(authority) };
        if before_query.contains('/') {
            let is_database = path.len() <= 3 && path.bytes().all(|byte| byte.is_ascii_digit());
            shown += &format!("/{}", if is_database { path } else { HIDDEN });
        }
    }
    for (index, parameter) in query.iter().enumerate() {
        shown.push(if index == 0 { '?' } else { '&' });
        shown += &parameter.shown();
    }
    if before_fragment.len() < rest.len() {
        shown += &format!("#{HIDDEN}");
    }
    shown
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
            "redis+unix:///run/redis server.sock?db=3",
        ] {
            assert_eq!(redacted(url), url);
        }
    }

    #[test]
    fn what_may_be_secret_is_hidden() {
        for (url, shown) in [
            ("redis://u:secret@host:1/3", "redis://***@host:1/3"),
            ("redis://u:sec@secret@host", "redis://***@host"),
            ("redis://u:secret", "redis://u:***"),
            ("redis://u:12/secret@host", "redis://***/***"),
            ("redis://u:12?x=secret@host", "redis://***?x=***"),
            ("redis://u:12#secret@host", "redis://***#***"),
            ("redis://host/secret", "redis://host/***"),
            ("redis://host?secret", "redis://host?***"),
            ("redis://host?pasword=secret", "redis://host?pasword=***"),
            ("redis://host?password=a&secret=b", "redis://host?password=***&***"),
            (
                "redis-sentinel://host?sentinelPassword=a@secret&sentinelUsername=secret",
                "redis-sentinel://host?sentinelPassword=***&sentinelUsername=***",
            ),
            (
                "redis-cluster://a?node=u:secret@b:2&node=b:secret",
                "redis-cluster://a?node=***@b:2&node=b:***",
            ),
            ("redis+unix://u:secret@host/path", "redis+unix://***"),
            ("redis+unix:///path?password=secret", "redis+unix:///path?password=***"),
            ("u:secret@host", "***"),
            ("redis:/u:secret@host", "***"),
            ("u:secret://secret@host", "***"),
            ("secret://host", "***"),
        ] {
            assert_eq!(redacted(url), shown, "{url}");
        }
    }
}
