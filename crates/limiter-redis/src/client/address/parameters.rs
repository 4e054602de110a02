//! The parameters and hosts of an address, and which parts of them are harmless to show.

/// What is shown in place of a value that may be secret.
pub(super) const HIDDEN: &str = "***";

/// A parameter in the query of an address.
pub(super) struct Parameter<'a> {
    pub(super) text: &'a str,
    /// Its name, unless that may be a part of a secret.
    pub(super) name: Option<&'a str>,
    value: &'a str,
}

/// Returns the parameters of a query. A name is a part of the value before it if that value is secret and has an
/// `&` that is not percent-encoded.
pub(super) fn parameters(query: &str) -> Vec<Parameter<'_>> {
    let mut may_be_secret = false;
    let texts = query.split('&').filter(|text| !text.is_empty());
    let parameter = |text| {
        let (name, value) = split(text, '=');
        let mut parameter = Parameter { text, name: Some(name), value };
        let is_name = text.len() > name.len()
            && !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphabetic());
        if !parameter.is_known() && (may_be_secret || !is_name) {
            parameter.name = None;
        }
        may_be_secret |= parameter.harmless_value().is_none();
        parameter
    };
    texts.map(parameter).collect()
}

impl Parameter<'_> {
    /// Returns whether it is one that addresses have.
    pub(super) fn is_known(&self) -> bool {
        let known = ["node", "db", "sentinelServiceName", "sentinelUsername", "sentinelPassword"];
        self.name.is_some_and(|name| known.contains(&name))
    }

    fn harmless_value(&self) -> Option<String> {
        let value = self.value;
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        match self.name? {
            "node" => Some(server(value)),
            "db" => value.parse::<u8>().is_ok().then(|| value.to_owned()),
            "sentinelServiceName" => value.bytes().all(is_word).then(|| value.to_owned()),
            _ => None,
        }
    }

    pub(super) fn shown(&self) -> String {
        let Some(name) = self.name else { return HIDDEN.to_owned() };
        let value = self.harmless_value();
        format!("{name}={}", value.as_deref().unwrap_or(HIDDEN))
    }
}

/// Returns a host and its port, without what is before them.
pub(super) fn server(authority: &str) -> String {
    let (user, server) =
        authority.rsplit_once('@').map_or(("", authority), |(_, server)| ("***@", server));
    let is_host = |host: &str| {
        let is_of_host =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(host) => {
                host.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':' || byte == b'.')
            }
            None => host.bytes().all(is_of_host),
        }
    };
    let (host, port) = match server.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (server, None),
    };
    let host = if is_host(host) { host } else { HIDDEN };
    match port {
        None => format!("{user}{host}"),
        Some(port) if port.parse::<u16>().is_ok() => format!("{user}{host}:{port}"),
        Some(_) => format!("{user}{host}:{HIDDEN}"),
    }
}

/// Returns an error if a query has other parameters than those that are known. It shows no text that may be a part
/// of a secret.
pub(super) fn check_parameters(query: &str, known: &[&str], expected: &str) -> Result<(), String> {
    for parameter in parameters(query) {
        match parameter.name {
            Some(name) if known.contains(&name) => {}
            Some(name) => return Err(format!("unknown parameter {name:?}; {expected}")),
            None => {
                return Err(format!(
                    "a parameter is not of the form name=value, or a \"&\" in a value is not written \
                     %26; {expected}"
                ));
            }
        }
    }
    Ok(())
}

/// Returns what is before a character and what is behind it.
pub(super) fn split(text: &str, at: char) -> (&str, &str) {
    text.split_once(at).unwrap_or((text, ""))
}
