//! The parts of an address, and faults that `fred` would ignore or misread.

use super::parameters::{check_parameters, split};

/// An address in parts.
pub(super) struct Parts<'a> {
    pub(super) encrypted: bool,
    /// Empty, `-sentinel`, `-cluster` or `+unix`.
    pub(super) kind: &'a str,
    /// Everything after the scheme.
    pub(super) rest: &'a str,
    pub(super) has_user: bool,
    /// Without its slash.
    pub(super) path: &'a str,
}

impl<'a> Parts<'a> {
    /// Splits an address, or returns what is wrong with it and what to do.
    pub(super) fn of(url: &'a str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let (encrypted, kind) = scheme_of(scheme).ok_or(
            "it must begin with redis://, redis-sentinel:// or redis-cluster://, or the same with \
             rediss or valkey, or redis+unix://",
        )?;
        if kind == "+unix" {
            return Ok(Self { encrypted, kind, rest, has_user: false, path: "" });
        }
        let (before_fragment, fragment) = split(rest, '#');
        let (before_query, query) = split(before_fragment, '?');
        let (authority, path) = split(before_query, '/');
        let (user, server) = authority
            .rsplit_once('@')
            .map_or((None, authority), |(user, server)| (Some(user), server));
        // The first of them ends the authority, so a user or password must not contain it.
        if user.is_none() {
            for (part, character, code) in
                [(path, '/', "2F"), (query, '?', "3F"), (fragment, '#', "23")]
            {
                let parameters = character == '?' && part.contains('=');
                if part.contains('@') && !parameters {
                    let fault = "in a user or password must be written";
                    return Err(format!("a \"{character}\" {fault} %{code}"));
                }
            }
        }
        if rest.contains('#') {
            return Err("it has a fragment; remove \"#\" and what follows".to_owned());
        }
        if user.is_some_and(|user| !user.is_empty() && !user.contains(':')) {
            return Err("the user has no password; write redis://user:password@host, or \
                        redis://:password@host for the default user"
                .to_owned());
        }
        check_server(server)?;
        if !path.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err("the database is not a number".to_owned());
        }
        check_query(kind, query)?;
        Ok(Self { encrypted, kind, rest, has_user: user.is_some(), path })
    }
}

/// Returns whether a scheme asks for TLS, and its kind, if it is known.
pub(super) fn scheme_of(scheme: &str) -> Option<(bool, &str)> {
    if scheme == "unix" {
        return Some((false, "+unix"));
    }
    let rest = scheme.strip_prefix("redis").or_else(|| scheme.strip_prefix("valkey"))?;
    let (encrypted, kind) = rest.strip_prefix('s').map_or((false, rest), |kind| (true, kind));
    let is_known = matches!(kind, "" | "-sentinel" | "-cluster") || kind == "+unix" && !encrypted;
    is_known.then_some((encrypted, kind))
}

fn check_server(server: &str) -> Result<(), String> {
    // An IPv6 address is in brackets, and has colons itself.
    let (host, port) = match server.rsplit_once(']') {
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => server.split_once(':').map_or((server, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err("the host is missing; write redis://host:6379".to_owned());
    }
    match port {
        Some(port) if !port.parse::<u16>().is_ok_and(|port| port > 0) => {
            Err("the port is not a number from 1 to 65535".to_owned())
        }
        _ => Ok(()),
    }
}

fn check_query(kind: &str, query: &str) -> Result<(), String> {
    let (known, expected): (&[&str], _) = match kind {
        "-sentinel" => (
            &["node", "sentinelServiceName", "sentinelUsername", "sentinelPassword"],
            "expected node, sentinelServiceName, sentinelUsername or sentinelPassword",
        ),
        "-cluster" => (&["node"], "expected node"),
        _ => (&[], "this kind of address has none"),
    };
    check_parameters(query, known, expected)?;
    if kind == "-sentinel" && !query.split('&').any(|it| it.starts_with("sentinelServiceName=")) {
        return Err("sentinelServiceName is missing; add ?sentinelServiceName=NAME".to_owned());
    }
    Ok(())
}
