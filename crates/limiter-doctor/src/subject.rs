//! Stored keys, read back: `prefix:{subject}:policy/limit:family`.

use std::fmt;

use limiter_redis::LEASES;
use serde_json::{Value, json};

use crate::{
    stored::{Family, UnknownFamily},
    words,
};

/// The parts of a stored key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StoredKey {
    pub(crate) prefix: String,
    pub(crate) subject: Subject,
    pub(crate) policy: String,
    /// The limit's name, `None` if it is the policy's only one or has its name.
    pub(crate) limit: Option<String>,
    /// The family of the limit's algorithm, as it is stored.
    family: String,
    /// Whether it is the key of the leases beside the limit's own key.
    pub(crate) is_of_leases: bool,
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
    /// Returns the parts of a key, `None` if no limiter has such keys.
    pub(crate) fn parse(key: &[u8]) -> Option<Self> {
        let (prefix, rest) = split_once(key, b":{")?;
        let (subject, rest) = split_once(rest, b"}:")?;
        let (names, stored) = split_once(rest, b":")?;
        let (policy, limit) = match split_once(names, b"/") {
            Some((policy, limit)) => (policy, Some(unescaped(limit))),
            None => (names, None),
        };
        let stored = words::text(stored);
        let beside = stored.strip_suffix(LEASES).filter(|family| *family == Family::Gcra.stored());
        Some(Self {
            prefix: unescaped(prefix),
            subject: Subject::parse(subject)?,
            policy: unescaped(policy),
            limit,
            is_of_leases: beside.is_some(),
            family: beside.unwrap_or(&stored).to_owned(),
        })
    }

    /// Returns the family, or why this version can't decode it.
    pub(crate) fn family(&self) -> Result<Family, UnknownFamily> {
        Family::parse(&self.family)
    }

    /// Returns the name of the algorithm's family: without the version of its form, but of one that can't be
    /// decoded.
    pub(crate) fn algorithm(&self) -> &str {
        match self.family() {
            Ok(family) => family.name(),
            Err(_) => &self.family,
        }
    }
}

/// Returns a key from the end of the policy's name on.
pub(crate) fn suffix(limit: Option<&str>, family: &str) -> String {
    let limit = limit.map(|name| format!("/{}", escaped(name))).unwrap_or_default();
    format!("{limit}:{family}")
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

impl Subject {
    /// Returns its kind and its value: of a tuple, a list of its parts.
    pub(crate) fn json(&self) -> Value {
        let value: Value = match self {
            Self::Tuple(parts) => parts.iter().map(Self::json).collect(),
            Self::Text(value)
            | Self::Bytes(value)
            | Self::Integer(value)
            | Self::Address(value)
            | Self::Digest(value)
            | Self::KeyedDigest(value) => value.as_str().into(),
        };
        json!({ "kind": self.kind(), "value": value })
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

/// The characters that separate the parts of a key, and their escapes. The last one is in all escapes.
const ESCAPES: [(&str, &str); 5] =
    [("%3A", ":"), ("%2F", "/"), ("%7B", "{"), ("%7D", "}"), ("%25", "%")];

/// Returns a prefix or a name without escapes.
fn unescaped(bytes: &[u8]) -> String {
    ESCAPES
        .iter()
        .fold(words::text(bytes), |text, (escape, character)| text.replace(escape, character))
}

/// Returns a name as keys contain it.
fn escaped(name: &str) -> String {
    let from_last = ESCAPES.iter().rev();
    from_last.fold(name.to_owned(), |text, (escape, character)| text.replace(character, escape))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_keys_are_read_back() {
        let stored = b"a%3Ab:{t6:salice2:i7}:%25api%2Fv1/per%2Fday%253A:sliding-log.3";
        let key = StoredKey::parse(stored).unwrap();
        let parts = vec![Subject::Text("alice".to_owned()), Subject::Integer("7".to_owned())];
        assert_eq!(
            key,
            StoredKey {
                prefix: "a:b".to_owned(),
                subject: Subject::Tuple(parts),
                policy: "%api/v1".to_owned(),
                limit: Some("per/day%3A".to_owned()),
                family: "sliding-log.3".to_owned(),
                is_of_leases: false,
            }
        );
        assert_eq!(key.subject.to_string(), "(\"alice\", 7)");
        assert_eq!((key.algorithm(), key.family()), ("sliding-log", Ok(Family::SlidingLog)));
        assert_eq!(suffix(Some("per/day%3A"), "gcra"), "/per%2Fday%253A:gcra");
        assert_eq!(suffix(None, "gcra"), ":gcra");
        for (family, why) in [
            ("sliding-log.2", UnknownFamily::Older),
            ("gcra+sliding-log.2", UnknownFamily::Older),
            ("gcra.2", UnknownFamily::Newer),
            ("fixed-window.2:leases", UnknownFamily::NoAlgorithm),
        ] {
            let key =
                StoredKey::parse(format!("limiter:{{salice}}:api:{family}").as_bytes()).unwrap();
            assert_eq!((key.family(), key.algorithm(), &key.limit), (Err(why), family, &None));
        }
    }

    #[test]
    fn a_key_of_leases_is_one_beside_another_key() {
        let key = |text: &str| StoredKey::parse(text.as_bytes()).unwrap();
        let leases = key("limiter:{salice}:api/hour:gcra:leases");
        assert!(leases.is_of_leases);
        let own = key("limiter:{salice}:api/hour:gcra");
        assert_eq!(leases, StoredKey { is_of_leases: true, ..own });
    }

    #[test]
    fn bytes_that_are_not_utf_8_are_escaped() {
        let key = StoredKey::parse(b"limiter:{t4:b\xffa\xc33:i12}:api:gcra").unwrap();
        let bytes = Subject::Bytes("\\xffa\\xc3".to_owned());
        assert_eq!(key.subject, Subject::Tuple(vec![bytes, Subject::Integer("12".to_owned())]));
    }

    #[test]
    fn other_keys_are_refused() {
        for key in ["", "limiter", "limiter:{}:api:gcra", "limiter:{salice}:api", "a:{t9:x}:b:c"] {
            assert_eq!(StoredKey::parse(key.as_bytes()), None, "{key}");
        }
    }
}
