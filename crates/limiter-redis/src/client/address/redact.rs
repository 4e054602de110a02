//! Addresses without users and passwords, for errors and log lines.

/// Query parameters whose values are hidden.
const SECRETS: [&str; 2] = ["sentinelPassword", "sentinelUsername"];

/// Hides users and passwords.
pub(crate) fn redacted(url: &str) -> String {
    let is_delimiter = |character| matches!(character, '?' | '&');
    let mut shown: String = url
        .split_inclusive(is_delimiter)
        .map(|part| match part.split_once('=') {
            Some((name, value)) if SECRETS.contains(&name) => {
                let end = if value.ends_with(is_delimiter) { "&" } else { "" };
                format!("{name}=***{end}")
            }
            _ => part.to_owned(),
        })
        .collect();
    // Without a scheme, all text before the host may be a user and a password.
    let is_word = |scheme: &str| {
        scheme.bytes().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'+'))
    };
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

    #[test]
    fn no_password_is_ever_shown() {
        for url in [
            "redis://u:secret@host",
            "redis://u:sec@secret@host",
            "redis-sentinel://u:secret@host?sentinelServiceName=x&sentinelPassword=secret",
            "redis-sentinel://host?sentinelPassword=a@secret&sentinelUsername=secret",
            "redis-sentinel://host?sentinelPassword=secret&sentinelPassword=secret",
            "redis+unix://u:secret@host/path",
            "u:secret@host",
            "redis:/u:secret@host",
            "u:secret://secret@host",
        ] {
            assert!(!redacted(url).contains("secret"), "{}", redacted(url));
            assert!(redacted(url).contains("host"), "{}", redacted(url));
        }
    }
}
