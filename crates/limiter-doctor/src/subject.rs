//! Stored keys, read back: `prefix:{subject}:name:families`.

use std::fmt;

use limiter_redis::state::{Family, UnknownFamily};
use serde_json::{Value, json};

use crate::words;

/// The parts of a stored key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StoredKey {
    pub(crate) prefix: String,
    pub(crate) subject: Subject,
    pub(crate) name: String,
    /// The stored families of the policy's algorithms, joined by `+`.
    families: String,
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
        let (name, families) = split_once(rest, b":")?;
        Some(Self {
            prefix: unescaped(prefix),
            subject: Subject::parse(subject)?,
            name: unescaped(name),
            families: words::text(families),
        })
    }

    /// Returns the families, or why this version can't decode one of them.
    pub(crate) fn families(&self) -> Result<Vec<Family>, UnknownFamily> {
        self.families.split('+').map(Family::parse).collect()
    }

    /// Returns the names of the algorithms' families, joined by `+`: without the versions of their forms, but
    /// of those that can't be decoded.
    pub(crate) fn algorithms(&self) -> String {
        let names = self.families.split('+').map(|stored| match Family::parse(stored) {
            Ok(family) => family.name(),
            Err(_) => stored,
        });
        names.collect::<Vec<_>>().join("+")
    }
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

/// Returns a prefix or a name without the escapes of `:`, `%`, `{` and `}`.
fn unescaped(bytes: &[u8]) -> String {
    [("%3A", ":"), ("%7B", "{"), ("%7D", "}"), ("%25", "%")]
        .iter()
        .fold(words::text(bytes), |text, (escape, character)| text.replace(escape, character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_keys_are_read_back() {
        let key = StoredKey::parse(b"a%3Ab:{t6:salice2:i7}:%25api:gcra+sliding-log.2").unwrap();
        let parts = vec![Subject::Text("alice".to_owned()), Subject::Integer("7".to_owned())];
        assert_eq!(
            key,
            StoredKey {
                prefix: "a:b".to_owned(),
                subject: Subject::Tuple(parts),
                name: "%api".to_owned(),
                families: "gcra+sliding-log.2".to_owned(),
            }
        );
        assert_eq!(key.subject.to_string(), "(\"alice\", 7)");
        assert_eq!(key.algorithms(), "gcra+sliding-log");
        assert_eq!(key.families(), Ok(vec![Family::Gcra, Family::SlidingLog]));
        let old = StoredKey::parse(b"limiter:{salice}:api:gcra+sliding-log").unwrap();
        assert_eq!((old.families(), old.algorithms()), (Err(UnknownFamily::Older), old.families));
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
