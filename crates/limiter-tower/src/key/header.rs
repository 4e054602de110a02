//! A key by a header field.

use http::HeaderName;
use limiter_core::Key;

use super::{KeyExtractor, MissingKey};
use crate::Head;

/// Counts requests by the value of a header field.
///
/// A client can send any value, and each new value has a new allowance. Therefore a layer
/// accepts this key only beside a rule with another key, such as the address, unless an outer layer
/// has [verified](Self::verified) the value.
///
/// A field that is missing or empty is [absent](super::MissingKind::Absent); several field lines are
/// [invalid](super::MissingKind::Invalid), because other programs might read another one.
///
/// ```
/// use http::HeaderName;
/// use limiter_tower::{HeaderKey, KeyExtractor};
///
/// // An outer layer refuses unknown API keys. The store must not hold them in clear.
/// let key = HeaderKey::new(HeaderName::from_static("x-api-key")).verified().secret();
/// ```
#[derive(Clone, Debug)]
pub struct HeaderKey {
    name: HeaderName,
    verified: bool,
}

impl HeaderKey {
    /// Returns an extractor of the field `name`.
    #[must_use]
    pub const fn new(name: HeaderName) -> Self {
        Self { name, verified: false }
    }

    /// States that no request with a made-up value reaches the layer.
    #[must_use]
    pub fn verified(self) -> Self {
        Self { verified: true, ..self }
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
        !self.verified
    }
}
