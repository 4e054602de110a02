//! Where a key's state lies in the store.

use limiter_core::{Error, ErrorKind, Key, Policy};

/// Builds the store's keys of one limiter: `prefix:{subject}:name:families`.
///
/// The braces make the subject the hash tag of a cluster, so that one subject's keys of all limiters
/// are in one slot.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    /// Up to and with the opening brace.
    before: Vec<u8>,
    /// From the closing brace on.
    after: Vec<u8>,
}

/// The longest encoding that a key contains. A longer one is stored as a digest, so that no client can
/// fill the store with long keys. One with a brace is, too, because the brace would end the hash tag:
/// a client could choose the slot, and a route such as `/users/{id}` would put all its keys into one.
const MAX_ENCODING: usize = 64;

const MAX_PREFIX: usize = 64;

impl Keys {
    pub(crate) fn new(prefix: &str, policy: &Policy) -> Result<Self, Error> {
        if prefix.is_empty() || prefix.len() > MAX_PREFIX {
            let message = format!("invalid key prefix {prefix:?}: use 1 to {MAX_PREFIX} bytes");
            return Err(Error::new(ErrorKind::InvalidSetting, message));
        }
        let before = escaped(prefix) + ":{";
        let after = format!("}}:{}:{}", escaped(policy.name()), policy.families());
        Ok(Self { before: before.into_bytes(), after: after.into_bytes() })
    }

    pub(crate) fn of(&self, key: &Key<'_>) -> Vec<u8> {
        let Self { before, after } = self;
        let mut out = Vec::with_capacity(before.len() + MAX_ENCODING + after.len());
        out.extend_from_slice(before);
        key.encode(&mut out);
        let encoding = out.get(before.len()..).unwrap_or_default();
        if encoding.len() > MAX_ENCODING || encoding.iter().any(|byte| matches!(byte, b'{' | b'}'))
        {
            // Marked with a tag that no encoding has.
            let digest = sha1_smol::Sha1::from(encoding).digest().bytes();
            out.truncate(before.len());
            out.push(b'#');
            for byte in digest.iter().take(16) {
                out.extend_from_slice(format!("{byte:02x}").as_bytes());
            }
        }
        out.extend_from_slice(after);
        out
    }
}

/// Returns a prefix or a policy's name as keys contain it: a colon would end it early, and a brace would
/// put all keys into one slot of a cluster.
pub(crate) fn escaped(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            ':' | '%' | '{' | '}' => out.push_str(&format!("%{:02X}", u32::from(character))),
            _ => out.push(character),
        }
    }
    out
}
