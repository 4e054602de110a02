//! The keys that a command is about.

use std::{
    collections::BTreeSet,
    io::{self, Read as _},
};

use limiter_core::{Key, Limit};
use limiter_redis::{
    CallError, Connection, Fault, LEASES, ScriptCall, ScriptClient as _, ScriptReply, stored_family,
};

use crate::{
    Failure,
    address::Addresses,
    arguments::{Kind, Server, Target},
    block::{self, BlockState},
    read::{WITHIN, invalid, text},
    subject::{StoredKey, suffix},
    words,
};

/// Returns the next cursor, and of the keys in a page of 1,000 that begin as a key does up to its last colon, what
/// follows: a limit's name or not, and a family. The key is in `KEYS` for the node of its slot, or an argument for the
/// node that runs the script.
const SEARCH: &str = r"
local begin = string.match(KEYS[1] or ARGV[2], '^(.*):')
local pattern = string.gsub(begin, '[*?%[%]\\^]', '\\%0') .. '[:/]*'
local page = redis.call('SCAN', ARGV[1], 'MATCH', pattern, 'COUNT', 1000)
local found = { page[1] }
for _, key in ipairs(page[2]) do
  if string.sub(key, 1, #begin) == begin then
    found[#found + 1] = string.sub(key, #begin + 1)
  end
end
return found
";

/// Why nothing may be found where a subject or a key is given as it was shown.
pub(crate) const REPLACED: &str = "Nothing is stored. The argument contains U+FFFD or an escape such as \\xff, by which \
                                   bytes are shown that are not UTF-8: give the bytes themselves, such as \
                                   \"$(printf 'limiter:{b\\377}:api:gcra')\".\n";

/// A stored key and its parts.
pub(crate) struct Found {
    pub(crate) key: Vec<u8>,
    pub(crate) parts: StoredKey,
    /// The limit that was given for it.
    pub(crate) limit: Option<Limit>,
    /// Whether it is a key of the subject's block, which few subjects have. Then it is not missed.
    pub(crate) is_of_block: bool,
}

/// The keys that the arguments mean.
pub(crate) struct Targets {
    /// All keys that may have a state; none if no key was found.
    pub(crate) keys: Vec<Found>,
    /// The begins of the keys that were looked for, if the arguments don't give a whole key.
    pub(crate) searched: Vec<String>,
    /// A line on how the subject is read; empty if it is read as it is given.
    pub(crate) note: String,
    /// Whether the argument contains U+FFFD or an escape, which are printed for bytes that are not UTF-8.
    pub(crate) may_be_replaced: bool,
}

/// Returns the keys that the arguments mean and those of the subject's block, without those of leases. Without a quota,
/// the limits of a policy are not known, so the keys of its name are looked for.
pub(crate) async fn find(
    server: &Server,
    connection: &Connection,
    target: &Target,
) -> Result<Targets, Failure> {
    let given = match target.target.as_encoded_bytes() {
        b"-" => from_stdin()?,
        bytes => bytes.to_owned(),
    };
    let is_key = target.policy.name.is_none();
    let may_be_replaced = str::from_utf8(&given)
        .is_ok_and(|text| text.contains('\u{fffd}') || is_key && has_escape(text));
    let mut targets =
        Targets { keys: Vec::new(), searched: Vec::new(), note: String::new(), may_be_replaced };
    let Some(name) = &target.policy.name else {
        let found = Found::of(given, server, target)?;
        if found.parts.is_of_leases {
            targets.note =
                format!("This is the key of the leases beside {}.\n", words::text(&found.key));
        }
        let is_of_block = BlockState::of(&found.parts).is_some();
        let begin = block::begin_of(&found.key).filter(|_| !is_of_block);
        let of_block = begin.map(Found::of_block).unwrap_or_default();
        targets.keys.push(found);
        targets.keys.extend(of_block);
        return Ok(targets);
    };
    if !target.secret && StoredKey::parse(&given).is_some() {
        let message = "it is a stored key, which has a name already; leave out --name";
        return Err(invalid_subject(&given, message));
    }
    if target.secret && !server.has_key_secret()? {
        let message = "the subject is a secret, whose key is a keyed digest: give the shared secret by \
                       --key-secret-file or LIMITER_KEY_SECRET";
        return Err(Failure::Usage(message.to_owned()));
    }
    let (subjects, note) = subjects(given, target)?;
    targets.note = note;
    let limits = target.policy.limits(name)?;
    for subject in subjects {
        let begin = server.key_begin(connection, name, subject)?;
        let given = limits
            .iter()
            .map(|(name, limit)| suffix(name.as_deref(), stored_family(limit.algorithm())));
        let mut suffixes: Vec<String> = given.collect();
        if limits.is_empty() {
            suffixes = search(connection, &begin).await?.into_iter().collect();
            let shown = words::text(&begin);
            targets.searched.extend([format!("{shown}:"), format!("{shown}/")]);
        }
        for suffix in suffixes {
            let key = [begin.as_slice(), suffix.as_bytes()].concat();
            targets.keys.push(Found::of(key, server, target)?);
        }
        targets.keys.extend(Found::of_block(&begin));
    }
    Ok(targets)
}

impl Found {
    fn of(mut key: Vec<u8>, server: &Server, target: &Target) -> Result<Self, Failure> {
        let shown = words::text(&key);
        let usage = |message: String| Err(Failure::Usage(message));
        let Some(parts) = StoredKey::parse(&key) else {
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
        if parts.is_of_leases {
            key.truncate(key.len() - LEASES.len());
        }
        let limit = target.policy.limit_of(&parts)?;
        Ok(Self { key, parts, limit, is_of_block: false })
    }

    /// Returns the keys that the block of a subject may have, whose keys begin so.
    fn of_block(begin: &[u8]) -> Vec<Self> {
        let found = BlockState::keys(begin).into_iter().filter_map(|key| {
            let parts = StoredKey::parse(&key)?;
            Some(Self { key, parts, limit: None, is_of_block: true })
        });
        found.collect()
    }
}

/// Returns what follows in the keys that begin so, on the node that serves their slot, or on both while it is migrated.
/// Of a key of leases, that is what follows in the key beside it.
async fn search(connection: &Connection, begin: &[u8]) -> Result<BTreeSet<String>, Failure> {
    // No limiter has this key, so a node from which the slot is migrated redirects the call.
    let key = [begin, b":-"].concat();
    let mut suffixes = BTreeSet::new();
    let owner = connection.server_of(&key);
    if owner.is_none() && !connection.supports_batches() {
        let message = "no known node of the cluster serves the slot of the subject's keys";
        return Err(CallError::new(Fault::NotSent, message).into());
    }
    let mut call = ScriptCall::new(SEARCH, vec![key.clone().into()]);
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
    let is_owner = |server: &limiter_redis::Server| *server.name() == *owner;
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
        let arguments = [SEARCH.as_bytes(), b"0", cursor.as_bytes(), &key];
        let reply = server.send("EVAL", &arguments, WITHIN).await?;
        cursor = page(&reply, &mut suffixes).ok_or_else(|| invalid(&reply))?;
        if cursor == "0" {
            return Ok(suffixes);
        }
    }
}

/// Adds what is in a reply to [`SEARCH`], and returns the next cursor.
fn page(reply: &ScriptReply, suffixes: &mut BTreeSet<String>) -> Option<String> {
    let ScriptReply::Array(parts) = reply else { return None };
    let (cursor, found) = parts.split_first()?;
    for suffix in found {
        let suffix = text(suffix)?;
        suffixes.insert(suffix.strip_suffix(LEASES).unwrap_or(&suffix).to_owned());
    }
    text(cursor)
}

/// Returns whether a text has an escape such as `\xff`.
fn has_escape(text: &str) -> bool {
    let is_hexadecimal = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    text.split("\\x").skip(1).any(|rest| rest.get(..2).is_some_and(is_hexadecimal))
}

fn invalid_subject(given: &[u8], message: &str) -> Failure {
    Failure::Usage(format!("invalid subject {:?}: {message}", words::text(given)))
}

/// Returns the subjects that the argument may name, and a line on how it is read.
fn subjects(given: Vec<u8>, target: &Target) -> Result<(Vec<Key<'static>>, String), Failure> {
    let invalid = |what: &str| invalid_subject(&given, &format!("it is not {what}"));
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
            return Ok((keys.collect(), note));
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
