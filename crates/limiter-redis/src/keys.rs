//! The store's keys of a limiter.

use std::cell::Cell;

use bytes::Bytes;
use limiter_core::{Error, ErrorKind, Key};

/// Builds the store's keys of one limiter: `prefix:{subject}:policy`, the hash that has a subject's states. Beside it, a list has those
/// of each log: [`list`](crate::scripts::list).
///
/// The braces make the subject the hash tag of a cluster, so that one subject's keys of all limiters
/// are in one slot. Requests, cached denials and leases identify a subject by the key of its hash.
pub(crate) struct Keys {
    /// Up to and with the opening brace.
    before: Vec<u8>,
    /// From the closing brace on.
    after: Vec<u8>,
    /// Keys the digests of secrets.
    secret: Option<[u8; blake3::KEY_LEN]>,
}

/// What follows the field of a state by GCRA in the name of the field of its leases.
pub const LEASES: &str = ":leases";

/// The end of the key of permits of requests in flight.
pub const IN_FLIGHT: &str = "inflight";

/// The longest encoding that a key contains. A longer one is stored as a digest, so that no client can
/// fill the store with long keys. One with a brace is, too, because the brace would end the hash tag:
/// a client could choose the slot, and a route such as `/users/{id}` would put all its keys into one.
const MAX_ENCODING: usize = 64;

/// The largest buffer that a thread keeps.
const MAX_KEPT: usize = 4_096;

const MAX_PREFIX: usize = 64;
const MIN_SECRET: usize = 16;
const MAX_SECRET: usize = 1_024;

/// Separates this use of the shared secret from any other.
const CONTEXT: &str = "limiter-redis 2026 digests of secret subjects";

impl Keys {
    pub(crate) fn new(prefix: &str, policy: &str, secret: Option<&[u8]>) -> Result<Self, Error> {
        Self::of_one(prefix, format!("}}:{}", escaped(policy)), secret)
    }

    /// Returns the keys `prefix:{subject}:name:inflight`, of permits of requests in flight.
    pub(crate) fn of_in_flight(
        prefix: &str,
        name: &str,
        secret: Option<&[u8]>,
    ) -> Result<Self, Error> {
        Self::of_one(prefix, format!("}}:{}:{IN_FLIGHT}", escaped(name)), secret)
    }

    fn of_one(prefix: &str, after: String, secret: Option<&[u8]>) -> Result<Self, Error> {
        let invalid = |message| Err(Error::new(ErrorKind::InvalidSetting, message));
        if prefix.is_empty() || prefix.len() > MAX_PREFIX {
            return invalid(format!("invalid key prefix {prefix:?}: use 1 to {MAX_PREFIX} bytes"));
        }
        if let Some(secret) = secret
            && !(MIN_SECRET..=MAX_SECRET).contains(&secret.len())
        {
            let bytes = secret.len();
            return invalid(format!(
                "invalid key secret of {bytes} bytes: use {MIN_SECRET} to {MAX_SECRET} bytes, such \
                 as the output of `openssl rand -hex 32`"
            ));
        }
        let before = escaped(prefix) + ":{";
        Ok(Self {
            before: before.into_bytes(),
            after: after.into_bytes(),
            secret: secret.map(|secret| blake3::derive_key(CONTEXT, secret)),
        })
    }

    /// Returns what is before and what is behind the subject.
    pub(crate) fn parts(&self) -> (&[u8], &[u8]) {
        (&self.before, &self.after)
    }

    /// Returns the key of a subject's hash, or an error if the subject is a secret and there is
    /// no secret to key its digest with.
    pub(crate) fn of(&self, key: &Key<'_>) -> Result<Bytes, Error> {
        let length = self.before.len() + MAX_ENCODING + self.after.len();
        self.write(key, Vec::with_capacity(length)).map(Bytes::from)
    }

    /// Calls `found` with that key, in a buffer that the thread keeps: checks that ask no
    /// server allocate nothing, which saves a quarter of their time.
    pub(crate) fn with<T>(
        &self,
        key: &Key<'_>,
        found: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, Error> {
        thread_local! {
            static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
        }
        let mut stored = self.write(key, BUFFER.take())?;
        let result = found(&stored);
        // A client may have chosen a long one.
        stored.clear();
        if stored.capacity() <= MAX_KEPT {
            BUFFER.set(stored);
        }
        Ok(result)
    }

    /// Appends that key to an empty buffer.
    fn write(&self, key: &Key<'_>, mut out: Vec<u8>) -> Result<Vec<u8>, Error> {
        let Self { before, after, secret, .. } = self;
        out.extend_from_slice(before);
        key.encode(&mut out);
        let encoding = out.get(before.len()..).unwrap_or_default();
        let is_long = encoding.len() > MAX_ENCODING;
        // No encoding begins with the tag of a digest.
        let (tag, digest) = if key.is_secret() {
            let Some(secret) = secret else {
                let message = "the key is a secret, which is stored as a keyed digest only: set \
                               Builder::key_secret to the same value in all processes";
                return Err(Error::new(ErrorKind::InvalidSetting, message));
            };
            (b'@', blake3::keyed_hash(secret, encoding))
        } else if is_long || encoding.iter().any(|byte| matches!(byte, b'{' | b'}')) {
            (b'#', blake3::hash(encoding))
        } else {
            out.extend_from_slice(after);
            return Ok(out);
        };
        out.truncate(before.len());
        out.push(tag);
        // 128 bits.
        out.extend(digest.to_hex().bytes().take(32));
        out.extend_from_slice(after);
        Ok(out)
    }
}

/// Returns a prefix or a name as keys contain it: a colon would end it early, and a brace would
/// put all keys into one slot of a cluster.
fn escaped(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            ':' | '%' | '{' | '}' => out.push_str(&format!("%{:02X}", u32::from(character))),
            _ => out.push(character),
        }
    }
    out
}
