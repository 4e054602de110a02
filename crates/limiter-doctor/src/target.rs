//! The key that a command is about.

use std::io::{self, Read as _};

use limiter_core::{Key, Policy};
use limiter_redis::Connection;

use crate::{
    Failure,
    arguments::{Kind, Server, Target},
    subject::StoredKey,
};

/// A stored key and its parts.
pub(crate) struct Found {
    pub(crate) key: Vec<u8>,
    pub(crate) parts: StoredKey,
    /// The policy with the quotas that were given.
    pub(crate) policy: Option<Policy>,
}

/// Returns the key that the arguments mean.
pub(crate) fn find(
    server: &Server,
    connection: &Connection,
    target: &Target,
) -> Result<Found, Failure> {
    let text = match target.target.as_str() {
        "-" => from_stdin()?,
        text => text.to_owned(),
    };
    let key = match &target.policy.name {
        None => text.into_bytes(),
        Some(_) if target.secret && !server.has_key_secret()? => {
            let message = "the subject is a secret, whose key is a keyed digest: give the shared secret \
                           by --key-secret-file or LIMITER_KEY_SECRET";
            return Err(Failure::Usage(message.to_owned()));
        }
        Some(name) => {
            let subject = subject(&text, target)?;
            // Without a quota, of the default algorithm.
            let policy = target.policy.with_quotas(name)?;
            let of_name = policy.map_or_else(|| Policy::parse(name, "1/s"), Ok)?;
            server.limiter(connection, of_name)?.stored_key(subject)?
        }
    };
    let shown = String::from_utf8_lossy(&key).into_owned();
    let usage = |message: String| Err(Failure::Usage(message));
    let Some(parts) = StoredKey::parse(&shown) else {
        return usage(format!(
            "invalid key {shown:?}: no limiter has such keys; give a key as SCAN shows it, such as \
             \"limiter:{{salice}}:api:gcra\", or a subject and the --name of its policy"
        ));
    };
    if parts.prefix != server.prefix {
        let (prefix, found) = (&server.prefix, &parts.prefix);
        return usage(format!(
            "invalid key {shown:?}: its prefix is not {prefix:?}; use --prefix {found:?} if it is a \
             limiter's"
        ));
    }
    let policy = target.policy.with_quotas(&parts.name)?;
    Ok(Found { key, parts, policy })
}

fn subject(text: &str, target: &Target) -> Result<Key<'static>, Failure> {
    let invalid =
        |what: &str| Failure::Usage(format!("invalid subject {text:?}: it is not {what}"));
    let key = match target.kind {
        Kind::Text => Key::from(text.to_owned()),
        Kind::Bytes => Key::from(text.as_bytes().to_vec()),
        Kind::Integer => match (text.parse::<i64>(), text.parse::<u64>()) {
            (Ok(number), _) => number.into(),
            (_, Ok(number)) => number.into(),
            _ => return Err(invalid("an integer of 64 bits")),
        },
        Kind::Address => {
            let address: Result<std::net::IpAddr, _> = text.parse();
            address.map_err(|_| invalid("an IP address"))?.into()
        }
    };
    Ok(if target.secret { Key::secret(key) } else { key })
}

fn from_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    let read = io::stdin().read_to_string(&mut text);
    read.map_err(|error| Failure::Usage(format!("can't read the standard input: {error}")))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}
