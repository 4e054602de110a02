//! Stored keys, read back: `prefix:{subject}:name:families`.

use std::fmt;

use limiter_redis::state::{Family, UnknownFamily};
use serde_json::{Value, json};

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
    pub(crate) fn parse(key: &str) -> Option<Self> {
        let (prefix, rest) = key.split_once(":{")?;
        let (subject, rest) = rest.split_once("}:")?;
        let (name, families) = rest.split_once(':')?;
        Some(Self {
            prefix: unescaped(prefix),
            subject: Subject::parse(subject)?,
            name: unescaped(name),
            families: families.to_owned(),
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
    fn parse(encoding: &str) -> Option<Self> {
        let mut characters = encoding.chars();
        let tag = characters.next()?;
        let rest = characters.as_str().to_owned();
        Some(match tag {
            's' => Self::Text(rest),
            'b' => Self::Bytes(rest),
            'i' => Self::Integer(rest),
            'a' => Self::Address(rest),
            't' => Self::Tuple(parts(&rest)?),
            '#' => Self::Digest(rest),
            '@' => Self::KeyedDigest(rest),
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
fn parts(text: &str) -> Option<Vec<Subject>> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let (length, after) = rest.split_once(':')?;
        let (part, after) = after.split_at_checked(length.parse().ok()?)?;
        parts.push(Subject::parse(part)?);
        rest = after;
    }
    Some(parts)
}

/// Returns a prefix or a name without the escapes of `:`, `%`, `{` and `}`.
fn unescaped(text: &str) -> String {
    [("%3A", ":"), ("%7B", "{"), ("%7D", "}"), ("%25", "%")]
        .iter()
        .fold(text.to_owned(), |text, (escape, character)| text.replace(escape, character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_keys_are_read_back() {
        let key = StoredKey::parse("a%3Ab:{t6:salice2:i7}:%25api:gcra+sliding-log.2").unwrap();
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
        let old = StoredKey::parse("limiter:{salice}:api:gcra+sliding-log").unwrap();
        assert_eq!((old.families(), old.algorithms()), (Err(UnknownFamily::Older), old.families));
    }

    #[test]
    fn other_keys_are_refused() {
        for key in ["", "limiter", "limiter:{}:api:gcra", "limiter:{salice}:api", "a:{t9:x}:b:c"] {
            assert_eq!(StoredKey::parse(key), None, "{key}");
        }
    }
}
