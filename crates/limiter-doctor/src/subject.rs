//! Stored keys, read back: the hash `prefix:{subject}:policy`, and what is beside it.

use std::fmt;

use limiter_redis::IN_FLIGHT;

use crate::{identity::Identity, words};

/// The parts of a stored key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StoredKey {
    pub(crate) prefix: String,
    pub(crate) subject: Subject,
    pub(crate) policy: String,
    pub(crate) content: Content,
}

/// What a key stores, as its name shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A hash with a field for each limit that is not a log.
    Hash,
    /// A list: the log of one limit.
    Log(Identity),
    /// A sorted set: the permits of requests in flight.
    InFlight,
    /// No limiter has such keys.
    Unknown,
}

/// Whose permits are counted, as far as the key shows it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Text(String),
    Bytes(String),
    Integer(String),
    Address(String),
    Tuple(Vec<Subject>),
    /// Of a subject that is long or contains a brace.
    Digest(String),
    /// Of a secret.
    KeyedDigest(String),
}

impl StoredKey {
    /// Returns the parts of a key, `None` if it has no prefix, subject or policy.
    pub(crate) fn parse(key: &[u8]) -> Option<Self> {
        let (prefix, rest) = split_once(key, b":{")?;
        let (subject, rest) = split_once(rest, b"}:")?;
        let (policy, beside) = match split_once(rest, b":") {
            Some((policy, beside)) => (policy, Some(beside)),
            None => (rest, None),
        };
        let content = match beside.map(str::from_utf8) {
            None => Content::Hash,
            Some(Ok(IN_FLIGHT)) => Content::InFlight,
            Some(Ok(text)) => Identity::parse(text)
                .filter(|identity| identity.family.is_log())
                .map_or(Content::Unknown, Content::Log),
            Some(Err(_)) => Content::Unknown,
        };
        let (prefix, policy) = (unescaped(prefix), unescaped(policy));
        let subject = Subject::parse(subject)?;
        (!policy.is_empty()).then_some(Self { prefix, subject, policy, content })
    }
}

/// Returns a key up to the end of its policy's name: the key of its hash.
pub(crate) fn hash_of(key: &[u8]) -> Option<&[u8]> {
    let names = key.windows(2).position(|bytes| bytes == b"}:")? + 2;
    let length = key.get(names..)?.iter().position(|byte| *byte == b':');
    key.get(..length.map_or(key.len(), |length| names + length))
}

impl Subject {
    fn parse(encoding: &[u8]) -> Option<Self> {
        let (tag, rest) = encoding.split_first()?;
        let text = words::text(rest);
        Some(match tag {
            b's' => Self::Text(text),
            b'b' => Self::Bytes(text),
            b'i' => Self::Integer(text),
            b'a' => Self::Address(text),
            b't' => Self::Tuple(parts(rest)?),
            b'#' => Self::Digest(text),
            b'@' => Self::KeyedDigest(text),
            _ => return None,
        })
    }

    /// Returns the name of its kind.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Bytes(_) => "bytes",
            Self::Integer(_) => "integer",
            Self::Address(_) => "address",
            Self::Tuple(_) => "tuple",
            Self::Digest(_) => "digest",
            Self::KeyedDigest(_) => "secret",
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) | Self::Bytes(text) => write!(f, "{text:?}"),
            Self::Integer(text) | Self::Address(text) => f.write_str(text),
            Self::Tuple(parts) => {
                let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
                write!(f, "({})", parts.join(", "))
            }
            Self::Digest(digest) => write!(f, "a long subject, or one with a brace: #{digest}"),
            Self::KeyedDigest(digest) => write!(f, "a secret: @{digest}"),
        }
    }
}

/// Returns the parts of a tuple, each after its length and a colon.
fn parts(encoding: &[u8]) -> Option<Vec<Subject>> {
    let (mut parts, mut rest) = (Vec::new(), encoding);
    while !rest.is_empty() {
        let (length, after) = split_once(rest, b":")?;
        let length = str::from_utf8(length).ok()?.parse().ok()?;
        let (part, after) = after.split_at_checked(length)?;
        parts.push(Subject::parse(part)?);
        rest = after;
    }
    Some(parts)
}

/// Returns what is before and after the first place of some bytes.
fn split_once<'a>(all: &'a [u8], separator: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let place = all.windows(separator.len()).position(|window| window == separator)?;
    let (before, rest) = all.split_at_checked(place)?;
    Some((before, rest.strip_prefix(separator)?))
}

/// The escapes of characters that separate the parts of a key. The last one is in all escapes.
const ESCAPES: [(&str, &str); 4] = [("%3A", ":"), ("%7B", "{"), ("%7D", "}"), ("%25", "%")];

/// Returns a prefix or a name without escapes.
fn unescaped(bytes: &[u8]) -> String {
    ESCAPES
        .iter()
        .fold(words::text(bytes), |text, (escape, character)| text.replace(escape, character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_keys_are_read_back() {
        let stored = b"a%3Ab:{t6:salice2:i7}:%25api/v1%253A:per:day/sliding-log.60s";
        let key = StoredKey::parse(stored).unwrap();
        let parts = vec![Subject::Text("alice".to_owned()), Subject::Integer("7".to_owned())];
        let identity = Identity::parse("per:day/sliding-log.60s").unwrap();
        assert_eq!(
            key,
            StoredKey {
                prefix: "a:b".to_owned(),
                subject: Subject::Tuple(parts),
                policy: "%api/v1%3A".to_owned(),
                content: Content::Log(identity),
            }
        );
        assert_eq!(key.subject.to_string(), "(\"alice\", 7)");
        assert_eq!(hash_of(stored).unwrap(), b"a%3Ab:{t6:salice2:i7}:%25api/v1%253A");
        let hash = hash_of(stored).unwrap();
        assert_eq!(hash_of(hash), Some(hash));
        assert_eq!(StoredKey::parse(hash), Some(StoredKey { content: Content::Hash, ..key }));
    }

    #[test]
    fn only_logs_and_requests_in_flight_are_beside_a_hash() {
        let content = |beside: &str| {
            let key = format!("limiter:{{salice}}:api:{beside}");
            StoredKey::parse(key.as_bytes()).unwrap().content
        };
        assert_eq!(content("inflight"), Content::InFlight);
        assert!(matches!(content("sub-windows.70s.10s"), Content::Log(_)));
        for beside in ["", "gcra", "gcra.60s", "sliding-log.3", "hour:inflight", "\u{1F980}"] {
            assert_eq!(content(beside), Content::Unknown, "{beside}");
        }
    }

    #[test]
    fn bytes_that_are_not_utf_8_are_escaped() {
        let key = StoredKey::parse(b"limiter:{t4:b\xffa\xc33:i12}:api").unwrap();
        let bytes = Subject::Bytes("\\xffa\\xc3".to_owned());
        assert_eq!(key.subject, Subject::Tuple(vec![bytes, Subject::Integer("12".to_owned())]));
    }

    #[test]
    fn other_keys_are_refused() {
        for key in
            ["", "limiter", "limiter:{}:api", "limiter:{salice}:", "limiter:{salice}", "a:{t9:x}:b"]
        {
            assert_eq!(StoredKey::parse(key.as_bytes()), None, "{key}");
        }
    }
}
