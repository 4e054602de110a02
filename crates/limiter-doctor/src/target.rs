//! The keys that a command is about.

use std::{
    collections::BTreeSet,
    io::{self, Read as _},
};

use limiter_core::Key;
use limiter_redis::{
    CallError, Connection, Fault, IN_FLIGHT, ScriptCall, ScriptClient as _, ScriptReply,
    Server as Node,
};

use crate::{
    Failure,
    address::Addresses,
    arguments::{Kind, Server, Target},
    block::BlockState,
    identity::Identity,
    limits::Limits,
    read::{READ, WITHIN, bytes, invalid, text},
    subject::{StoredKey, hash_of},
    words,
};

/// Returns the next cursor, and of the keys in a page of 1,000 that begin with that of a subject's hash, what follows.
/// It is what a key has before `:-`. That key is in `KEYS` for the node of its slot, or an argument for the node that
/// runs the script. In a cluster, newer servers read only the slot, because the pattern has its hash tag.
const SEARCH: &str = r"
local begin = string.match(KEYS[1] or ARGV[2], '^(.*):%-$')
local pattern = string.gsub(begin, '[*?%[%]\\^]', '\\%0') .. '*'
local page = redis.call('SCAN', ARGV[1], 'MATCH', pattern, 'COUNT', 1000)
local found = { page[1] }
for _, key in ipairs(page[2]) do
  local rest = string.sub(key, #begin + 1)
  if string.sub(key, 1, #begin) == begin and string.match(rest, '^[:-]?') == string.sub(rest, 1, 1) then
    found[#found + 1] = hex(rest)
  end
end
return found
";

/// Why nothing may be found where a subject or a key is given as it was shown.
pub(crate) const REPLACED: &str = "Nothing is stored. The argument contains U+FFFD or an escape such as \\xff, by which \
                                   control characters are shown, and bytes that are not UTF-8: give the bytes \
                                   themselves, such as \"$(printf 'limiter:{b\\377}:api')\".\n";

/// A stored key and its parts.
pub(crate) struct Found {
    pub(crate) key: Vec<u8>,
    pub(crate) parts: StoredKey,
    /// Which state of the policy's block it is, as far as its name shows it; `None` if it is the policy's own.
    pub(crate) block: Option<BlockState>,
    /// Whether the argument is this key.
    pub(crate) is_given: bool,
}

/// The keys that the arguments mean.
pub(crate) struct Targets {
    /// The stored keys of the subject under the policy, and those of its block.
    pub(crate) keys: Vec<Found>,
    /// The keys of the hashes that were looked for, with which the others begin.
    pub(crate) searched: Vec<String>,
    /// A line on how the subject is read; empty if it is read as it is given, or is a secret.
    pub(crate) note: String,
    /// Whether the argument contains U+FFFD or an escape, which are printed for bytes that are not UTF-8 and for control
    /// characters.
    pub(crate) may_be_replaced: bool,
}

/// Returns the keys that are stored of a subject under a policy, and those of its block. They are looked for, because
/// their names contain the spans of logs. If the limits of the policy are given, it returns the keys that may be there,
/// without the log of strikes, because the limits don't tell for how long strikes count.
pub(crate) async fn find(
    server: &Server,
    connection: &Connection,
    target: &Target,
    limits: &Limits,
) -> Result<Targets, Failure> {
    let given = match target.target.as_encoded_bytes() {
        b"-" => from_stdin()?,
        bytes => bytes.to_owned(),
    };
    let is_key = target.name.is_none();
    let given_key = is_key.then(|| given.clone());
    let may_be_replaced = str::from_utf8(&given)
        .is_ok_and(|text| text.contains('\u{fffd}') || is_key && has_escape(text));
    let (hashes, note) = match &target.name {
        None => (vec![hash_of_stored(&given, server)?], String::new()),
        Some(name) => by_subject(given, name, server, connection, target)?,
    };
    let mut keys = Vec::new();
    for hash in &hashes {
        let rests = match keys_of_limits(hash, limits) {
            Some(rests) => rests,
            None => search(connection, hash).await?,
        };
        for rest in rests {
            let key = [hash.as_slice(), &rest].concat();
            let Some(parts) = StoredKey::parse(&key) else { continue };
            let block = BlockState::of_suffix(&rest, &parts.content);
            // Otherwise it is of a policy whose name begins so.
            if block.is_some() || matches!(rest.as_slice(), [] | [b':', ..]) {
                let is_given = given_key.as_ref() == Some(&key);
                keys.push(Found { key, parts, block, is_given });
            }
        }
    }
    // A block is lifted last.
    keys.sort_by_key(|found| found.block);
    let searched = hashes.iter().map(|hash| words::text(hash)).collect();
    Ok(Targets { keys, searched, note, may_be_replaced })
}

/// Returns what follows in the keys that may be there, if the limits of the policy are known.
fn keys_of_limits(hash: &[u8], limits: &Limits) -> Option<BTreeSet<Vec<u8>>> {
    let parts = StoredKey::parse(hash)?;
    let logs = limits.identities(&parts.policy)?.into_iter();
    let logs = logs.filter(|text| Identity::parse(text).is_some_and(|it| it.family.is_log()));
    let beside = logs.chain([IN_FLIGHT]).map(|beside| format!(":{beside}"));
    let blocks = [BlockState::Levels, BlockState::Block].map(|block| block.ending().to_owned());
    Some(beside.chain(blocks).chain([String::new()]).map(String::into_bytes).collect())
}

/// Returns the key of the hash that a stored key is, or is beside of.
fn hash_of_stored(given: &[u8], server: &Server) -> Result<Vec<u8>, Failure> {
    let shown = words::text(given);
    let usage = |message: String| Err(Failure::Usage(message));
    let (Some(parts), Some(hash)) = (StoredKey::parse(given), hash_of(given)) else {
        return usage(format!(
            "invalid key {shown:?}: no limiter has such keys; give a key as SCAN shows it, such as \
             \"limiter:{{salice}}:api\", or a subject and the --name of its policy"
        ));
    };
    if parts.prefix != words::text(server.prefix.as_bytes()) {
        let (prefix, found) = (&server.prefix, &parts.prefix);
        return usage(format!(
            "invalid key {shown:?}: its prefix is not {prefix:?}; use --prefix {found:?} if it is a limiter's"
        ));
    }
    Ok(hash.to_owned())
}

/// Returns the keys of the hashes that a subject may have, and a line on how it is read.
fn by_subject(
    given: Vec<u8>,
    name: &str,
    server: &Server,
    connection: &Connection,
    target: &Target,
) -> Result<(Vec<Vec<u8>>, String), Failure> {
    if !target.secret && StoredKey::parse(&given).is_some() {
        let message = "it is a stored key, which has a name already; leave out --name";
        return Err(invalid_subject(&given, target, message));
    }
    if target.secret && !server.has_key_secret()? {
        let message = "the subject is a secret, whose key is a keyed digest: give the shared secret by \
                       --key-secret-file or LIMITER_KEY_SECRET";
        return Err(Failure::Usage(message.to_owned()));
    }
    let (subjects, note) = subjects(given, target)?;
    let hashes = subjects.into_iter().map(|subject| server.hash_key(connection, name, subject));
    Ok((hashes.collect::<Result<_, _>>()?, note))
}

/// Returns what follows in the keys that begin so, on the node that serves their slot, or on both while it is migrated.
async fn search(connection: &Connection, begin: &[u8]) -> Result<BTreeSet<Vec<u8>>, Failure> {
    // No limiter has this key, so a node from which the slot is migrated redirects the call.
    let key = [begin, b":-"].concat();
    let mut suffixes = BTreeSet::new();
    let owner = connection.server_of(&key);
    if owner.is_none() && !connection.supports_batches() {
        let message = "no known node of the cluster serves the slot of the subject's keys";
        return Err(CallError::new(Fault::NotSent, message).into());
    }
    let script = [READ, SEARCH].concat();
    let mut call = ScriptCall::new(&script, vec![key.clone().into()]);
    call.arguments = vec!["0".into()];
    loop {
        let reply = connection.run(&call, WITHIN).await?;
        let cursor = page(&reply, &mut suffixes);
        let cursor = cursor.ok_or_else(|| invalid(&reply))?;
        if cursor == "0" {
            break;
        }
        call.arguments = vec![cursor.into()];
    }
    let Some((_, owner)) = connection.server_of(&key) else { return Ok(suffixes) };
    let is_owner = |server: &Node| *server.name() == *owner;
    let Some(server) = connection.servers().into_iter().find(is_owner) else { return Ok(suffixes) };
    let probe = [b"return 1", &b"1"[..], &key];
    match server.send("EVAL", &probe, WITHIN).await {
        // The slot is migrated from this node, which has the keys that are not migrated yet.
        Err(error) if error.fault() == Fault::Redirected => {}
        Err(error) => return Err(error.into()),
        Ok(_) => return Ok(suffixes),
    }
    let mut cursor = "0".to_owned();
    loop {
        let arguments = [script.as_bytes(), b"0", cursor.as_bytes(), &key];
        let reply = server.send("EVAL", &arguments, WITHIN).await?;
        cursor = page(&reply, &mut suffixes).ok_or_else(|| invalid(&reply))?;
        if cursor == "0" {
            return Ok(suffixes);
        }
    }
}

/// Adds what is in a reply to [`SEARCH`], and returns the next cursor.
fn page(reply: &ScriptReply, found: &mut BTreeSet<Vec<u8>>) -> Option<String> {
    let ScriptReply::Array(parts) = reply else { return None };
    let (cursor, rests) = parts.split_first()?;
    for rest in rests {
        found.insert(bytes(rest)?);
    }
    text(cursor)
}

/// Returns whether a text has an escape such as `\xff`.
fn has_escape(text: &str) -> bool {
    let is_hexadecimal = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    text.split("\\x").skip(1).any(|rest| rest.get(..2).is_some_and(is_hexadecimal))
}

fn invalid_subject(given: &[u8], target: &Target, message: &str) -> Failure {
    Failure::Usage(match target.secret {
        true => format!("invalid secret subject: {message}"),
        false => format!("invalid subject {:?}: {message}", words::text(given)),
    })
}

/// Returns the subjects that the argument may name, and a line on how it is read; of a secret, none.
fn subjects(given: Vec<u8>, target: &Target) -> Result<(Vec<Key<'static>>, String), Failure> {
    let invalid = |what: &str| invalid_subject(&given, target, &format!("it is not {what}"));
    let text = || str::from_utf8(&given).map_err(|_| invalid("UTF-8; use --kind bytes"));
    let key: Key<'_> = match target.kind {
        Kind::Text => text()?.to_owned().into(),
        Kind::Bytes => given.into(),
        Kind::Integer => match (text()?.parse::<i64>(), text()?.parse::<u64>()) {
            (Ok(number), _) => number.into(),
            (_, Ok(number)) => number.into(),
            _ => return Err(invalid("an integer of 64 bits")),
        },
        Kind::Address => {
            let Addresses { stored, note } = Addresses::parse(text()?).map_err(invalid)?;
            let keys = stored.into_iter().map(|address| secret(address.into(), target));
            return Ok((keys.collect(), if target.secret { String::new() } else { note }));
        }
    };
    Ok((vec![secret(key, target)], String::new()))
}

fn secret(key: Key<'static>, target: &Target) -> Key<'static> {
    if target.secret { Key::secret(key) } else { key }
}

fn from_stdin() -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = io::stdin().read_to_end(&mut bytes);
    read.map_err(|error| Failure::Usage(format!("can't read the standard input: {error}")))?;
    while bytes.pop_if(|byte| matches!(byte, b'\r' | b'\n')).is_some() {}
    Ok(bytes)
}
