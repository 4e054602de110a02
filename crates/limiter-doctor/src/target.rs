//! The keys that a command is about.

use std::{
    collections::BTreeSet,
    io::{self, Read as _},
};

use limiter_core::{Key, Policy};
use limiter_redis::{CallError, Connection, Fault, ScriptClient as _, ScriptReply};

use crate::{
    Failure,
    address::Addresses,
    arguments::{Kind, Server, Target},
    read::{WITHIN, invalid, text},
    subject::StoredKey,
    top::escaped,
};

/// How many keys are asked for at once.
const PAGE: &str = "1000";

/// A stored key and its parts.
pub(crate) struct Found {
    pub(crate) key: Vec<u8>,
    pub(crate) parts: StoredKey,
    /// The policy with the quotas that were given.
    pub(crate) policy: Option<Policy>,
}

/// The keys that the arguments mean.
pub(crate) struct Targets {
    /// All keys that may have a state; none if no key was found.
    pub(crate) keys: Vec<Found>,
    /// The begins of the keys that were looked for, if the arguments don't give a whole key.
    pub(crate) searched: Vec<String>,
    /// A line on how the subject is read; empty if it is read as it is given.
    pub(crate) note: String,
}

/// Returns the keys that the arguments mean. Without a quota, the algorithms of a policy are not known, so
/// the keys of its name are looked for.
pub(crate) async fn find(
    server: &Server,
    connection: &Connection,
    target: &Target,
) -> Result<Targets, Failure> {
    let text = match target.target.as_str() {
        "-" => from_stdin()?,
        text => text.to_owned(),
    };
    let Some(name) = &target.policy.name else {
        let keys = vec![Found::of(text.into_bytes(), server, target)?];
        return Ok(Targets { keys, searched: Vec::new(), note: String::new() });
    };
    if !target.secret && StoredKey::parse(&text).is_some() {
        let message = "it is a stored key, which has a name already; leave out --name";
        return Err(Failure::Usage(format!("invalid subject {text:?}: {message}")));
    }
    if target.secret && !server.has_key_secret()? {
        let message = "the subject is a secret, whose key is a keyed digest: give the shared secret by \
                       --key-secret-file or LIMITER_KEY_SECRET";
        return Err(Failure::Usage(message.to_owned()));
    }
    let (subjects, note) = subjects(&text, target)?;
    let mut targets = Targets { keys: Vec::new(), searched: Vec::new(), note };
    if let Some(policy) = target.policy.with_quotas(name)? {
        let limiter = server.limiter(connection, policy)?;
        for subject in subjects {
            targets.keys.push(Found::of(limiter.stored_key(subject)?, server, target)?);
        }
        return Ok(targets);
    }
    let limiter = server.limiter(connection, Policy::parse(name, "1/s")?)?;
    for subject in subjects {
        let any = limiter.stored_key(subject)?;
        let begin = String::from_utf8_lossy(&any);
        let begin = begin.rsplit_once(':').map_or("", |(begin, _)| begin).to_owned() + ":";
        for key in search(connection, &any, &(escaped(&begin) + "*")).await? {
            targets.keys.push(Found::of(key.into_bytes(), server, target)?);
        }
        targets.searched.push(begin);
    }
    Ok(targets)
}

impl Found {
    fn of(key: Vec<u8>, server: &Server, target: &Target) -> Result<Self, Failure> {
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
        Ok(Self { key, parts, policy })
    }
}

/// Returns the keys that match a pattern, of the server that has the slot of `key`.
async fn search(
    connection: &Connection,
    key: &[u8],
    pattern: &str,
) -> Result<BTreeSet<String>, Failure> {
    let owner = connection.server_of(key);
    let is_cluster = !connection.takes_many_keys();
    let is_owner = |name: &str| match &owner {
        Some((_, owner)) => **owner == *name,
        None => !is_cluster,
    };
    let Some(server) = connection.servers().into_iter().find(|server| is_owner(server.name()))
    else {
        let message = "no known node of the cluster serves the slot of the subject's keys";
        return Err(CallError::new(Fault::NotSent, message).into());
    };
    let (mut cursor, mut keys) = ("0".to_owned(), BTreeSet::new());
    loop {
        let arguments = [&cursor, "MATCH", pattern, "COUNT", PAGE];
        let reply = server.send("SCAN", &arguments, WITHIN).await?;
        let (next, page) = page(&reply).ok_or_else(|| invalid(&reply))?;
        keys.extend(page);
        if next == "0" {
            return Ok(keys);
        }
        cursor = next;
    }
}

/// Returns the next cursor and the keys in a reply to `SCAN`.
fn page(reply: &ScriptReply) -> Option<(String, Vec<String>)> {
    let ScriptReply::Array(parts) = reply else { return None };
    let [cursor, ScriptReply::Array(keys)] = parts.as_slice() else { return None };
    Some((text(cursor)?, keys.iter().map(text).collect::<Option<_>>()?))
}

/// Returns the subjects that a text stands for, and a line on how it is read.
fn subjects(text: &str, target: &Target) -> Result<(Vec<Key<'static>>, String), Failure> {
    let invalid =
        |what: &str| Failure::Usage(format!("invalid subject {text:?}: it is not {what}"));
    let key: Key<'_> = match target.kind {
        Kind::Text => text.to_owned().into(),
        Kind::Bytes => text.as_bytes().to_vec().into(),
        Kind::Integer => match (text.parse::<i64>(), text.parse::<u64>()) {
            (Ok(number), _) => number.into(),
            (_, Ok(number)) => number.into(),
            _ => return Err(invalid("an integer of 64 bits")),
        },
        Kind::Address => {
            let Addresses { stored, note } = Addresses::parse(text).map_err(invalid)?;
            let keys = stored.into_iter().map(|address| secret(address.into(), target));
            return Ok((keys.collect(), note));
        }
    };
    Ok((vec![secret(key, target)], String::new()))
}

fn secret(key: Key<'static>, target: &Target) -> Key<'static> {
    if target.secret { Key::secret(key) } else { key }
}

fn from_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    let read = io::stdin().read_to_string(&mut text);
    read.map_err(|error| Failure::Usage(format!("can't read the standard input: {error}")))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}
