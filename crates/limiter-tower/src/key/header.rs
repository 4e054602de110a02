//! A key by a header field.

use http::{HeaderName, header::AUTHORIZATION};
use limiter_core::Key;

use super::{Head, KeySource, MaybeKey, MissingKey};

/// Counts requests by the value of a header field.
///
/// A client can send any value, and each new value has a new allowance. Therefore a layer
/// accepts this key only beside a rule with another key, such as the address, unless an outer layer
/// has [verified](MaybeKey::assume_verified) the value.
///
/// A field that is missing or empty is [absent](MissingKey::Absent); several field lines are
/// [invalid](MissingKey::Invalid), because other programs might read another one. The scheme of `Authorization` counts
/// in lower case, and the spaces after it don't count: `Bearer x` and `bearer  x` are one key (RFC 9110, section 11.4). A
/// token that is refreshed is another key: count by the user that it names, as an
/// [`ExtensionKey`](super::ExtensionKey).
///
/// ```
/// use http::HeaderName;
/// use limiter_tower::key::{HeaderKey, MaybeKey};
///
/// // An outer layer refuses unknown API keys. The store must not hold them in clear.
/// let key = HeaderKey::new(HeaderName::from_static("x-api-key")).assume_verified().secret().or_reject();
/// ```
#[derive(Clone, Debug)]
pub struct HeaderKey {
    name: HeaderName,
}

impl HeaderKey {
    /// Returns an extractor of the field `name`.
    #[must_use]
    pub const fn new(name: HeaderName) -> Self {
        Self { name }
    }
}

impl MaybeKey for HeaderKey {
    fn find<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey> {
        let name = &self.name;
        let mut lines = head.headers.get_all(name).iter();
        match (lines.next(), lines.next()) {
            (Some(_), Some(_)) => {
                Err(MissingKey::invalid(format!("several `{name}` header fields: send one")))
            }
            (Some(value), None) if !value.is_empty() => Ok(match *name {
                AUTHORIZATION => credentials(value.as_bytes()),
                _ => value.as_bytes().into(),
            }),
            _ => Err(MissingKey::absent(format!("missing header field `{name}`"))),
        }
    }

    fn source(&self) -> KeySource {
        KeySource::Chosen
    }
}

/// Returns the key of the value of `Authorization`: a scheme, spaces and credentials.
fn credentials(value: &[u8]) -> Key<'_> {
    let Some(end) = value.iter().position(|byte| *byte == b' ') else {
        return value.into();
    };
    let (scheme, rest) = value.split_at(end);
    Key::tuple([scheme.to_ascii_lowercase().into(), rest.trim_ascii().into()])
}
