//! Addresses for errors and log lines, without any value that may be secret.

use url::{Position, Url};

use super::parts::{self, Parts};

/// What is shown in place of a value that may be secret.
const HIDDEN: &str = "***";

/// Returns a valid address without its user and password. Of an invalid one, the scheme, the host and the port are
/// shown: all else may be a user or a password that was written in the wrong place. If these may be, too, only the
/// scheme is shown.
pub(crate) fn redacted(address: &str) -> String {
    let is_known = parts::of_scheme(address).is_some();
    let Some((scheme, _)) = address.split_once("://").filter(|_| is_known) else {
        return HIDDEN.to_owned();
    };
    let scheme_only = format!("{scheme}://{HIDDEN}");
    let Ok(mut url) = Url::parse(address) else { return scheme_only };
    let has_user = parts::has_user(&url);
    let is_shown = !has_user || url.set_password(None).and(url.set_username(HIDDEN)).is_ok();
    if !is_shown || parts::is_misread(&url) {
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
