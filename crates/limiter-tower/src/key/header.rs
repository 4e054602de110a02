//! A key by a header field.

use http::HeaderName;
use limiter_core::Key;

use super::{Head, KeyExtractor, MissingKey};

/// Counts requests by the value of a header field.
///
/// A client can send any value, and each new value has a new allowance. Therefore a layer
/// accepts this key only beside a rule with another key, such as the address, unless an outer layer
/// has [verified](KeyExtractor::verified) the value.
///
/// A field that is missing or empty is [absent](MissingKey::Absent); several field lines are
/// [invalid](MissingKey::Invalid), because other programs might read another one.
///
/// ```
/// use http::HeaderName;
/// use limiter_tower::key::{HeaderKey, KeyExtractor};
///
/// // An outer layer refuses unknown API keys. The store must not hold them in clear.
/// let key = HeaderKey::new(HeaderName::from_static("x-api-key")).verified().secret();
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

impl KeyExtractor for HeaderKey {
    fn key<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey> {
        let name = &self.name;
        let mut lines = head.headers.get_all(name).iter();
        match (lines.next(), lines.next()) {
            (Some(_), Some(_)) => {
                Err(MissingKey::invalid(format!("several `{name}` header fields: send one")))
            }
            (Some(value), None) if !value.is_empty() => Ok(value.as_bytes().into()),
            _ => Err(MissingKey::absent(format!("missing header field `{name}`"))),
        }
    }

    fn is_client_chosen(&self) -> bool {
        true
    }
}
