//! The store's keys of a limiter.

use std::{cell::Cell, iter};

use bytes::Bytes;
use limiter_core::{Algorithm, Error, ErrorKind, Key, Limit, Policy};

/// Builds the store's keys of one limiter: `prefix:{subject}:policy/limit:family` for each limit, without
/// `/limit` for the only one and for the one that has the policy's name.
///
/// The braces make the subject the hash tag of a cluster, so that one subject's keys of all limiters
/// are in one slot. Requests, cached denials and leases identify a subject by
/// the key of its first limit.
pub(crate) struct Keys {
    /// Up to and with the opening brace.
    before: Vec<u8>,
    /// From the closing brace on, in the key of the first limit.
    after: Vec<u8>,
    /// The same of the other limits.
    others: Vec<Vec<u8>>,
    /// Keys the digests of secrets.
    secret: Option<[u8; blake3::KEY_LEN]>,
}

/// What follows a key of GCRA in the key of its leases.
pub const LEASES: &str = ":leases";

/// What a key of permits of requests in flight has in the place of a family.
pub const IN_FLIGHT: &str = "inflight";

/// Returns the family of an algorithm's states as keys contain it. A form that changes gets the next version, so that no
/// limiter reads a state of another form. `limiter-doctor` decodes the forms.
#[must_use]
pub const fn stored_family(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Gcra | Algorithm::LeakyQueue { .. } => "gcra",
        Algorithm::FixedWindow => "fixed-window.2",
        Algorithm::AlignedWindow => "aligned-window.2",
        Algorithm::SlidingCounter => "sliding-counter.2",
        Algorithm::SubWindows(_) => "sub-windows.3",
        Algorithm::SlidingLog => "sliding-log.3",
    }
}

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
    pub(crate) fn new(prefix: &str, policy: &Policy, secret: Option<&[u8]>) -> Result<Self, Error> {
        let mut after = policy.limits().iter().map(|limit| after(policy, limit));
        let (first, others) = (after.next().unwrap_or_default(), after.collect());
        Ok(Self { others, ..Self::of_one(prefix, first, secret)? })
    }

    /// Returns the keys `prefix:{subject}:name:inflight`, of permits of requests in flight.
    pub(crate) fn of_in_flight(
        prefix: &str,
        name: &str,
        secret: Option<&[u8]>,
    ) -> Result<Self, Error> {
        Self::of_one(prefix, format!("}}:{}:{IN_FLIGHT}", escaped_name(name)).into_bytes(), secret)
    }

    fn of_one(prefix: &str, after: Vec<u8>, secret: Option<&[u8]>) -> Result<Self, Error> {
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
            after,
            others: Vec::new(),
            secret: secret.map(|secret| blake3::derive_key(CONTEXT, secret)),
        })
    }

    /// Returns, for each limit, what is before and what is behind the subject in its keys.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let after = iter::once(&self.after).chain(&self.others);
        after.map(|after| (&*self.before, &**after))
    }

    /// Adds the keys of all limits, by the key of the first one.
    pub(crate) fn add_all(&self, first: &Bytes, all: &mut Vec<Bytes>) {
        all.push(first.clone());
        let subject = first.strip_suffix(&*self.after).unwrap_or(first);
        all.extend(self.others.iter().map(|after| Bytes::from([subject, after].concat())));
    }

    /// Returns the key beside that of a limit by GCRA, which has the latest end of its leases.
    pub(crate) fn of_leases(key: &[u8]) -> Bytes {
        [key, LEASES.as_bytes()].concat().into()
    }

    /// Returns the store's key of a subject for the first limit, or an error if the subject is a secret and there is
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

/// Returns the key of a limit from the closing brace on.
fn after(policy: &Policy, limit: &Limit) -> Vec<u8> {
    let family = stored_family(limit.algorithm());
    let (policy, is_only) = (policy.name(), policy.limits().len() == 1);
    let after = if is_only || limit.name() == policy {
        format!("}}:{}:{family}", escaped_name(policy))
    } else {
        format!("}}:{}/{}:{family}", escaped_name(policy), escaped_name(limit.name()))
    };
    after.into_bytes()
}

/// Returns the name of a policy or a limit as keys contain it: a slash separates the two.
fn escaped_name(name: &str) -> String {
    escaped(name).replace('/', "%2F")
}

/// Returns a prefix as keys contain it: a colon would end it early, and a brace would
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
