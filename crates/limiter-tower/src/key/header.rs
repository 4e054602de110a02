//! A key by a header field.

use http::{HeaderName, request::Parts};
use limiter_core::Key;

use super::{KeyExtractor, MissingKey};

/// Counts requests by the value of a header field, such as an API key.
///
/// Of several field lines of that name the first counts; an empty value is no key. A client can
/// send what it likes, so this is for values that are checked elsewhere: whoever makes up a new
/// value gets a new allowance.
#[derive(Clone, Debug)]
pub struct HeaderKey(HeaderName);

impl HeaderKey {
    /// Returns an extractor of the field `name`.
    #[must_use]
    pub const fn new(name: HeaderName) -> Self {
        Self(name)
    }
}

impl KeyExtractor for HeaderKey {
    fn extract<'r>(&self, request: &'r Parts) -> Result<Key<'r>, MissingKey> {
        match request.headers.get(&self.0) {
            Some(value) if !value.is_empty() => Ok(value.as_bytes().into()),
            _ => Err(MissingKey::client(format!("the request has no field {}", self.0))),
        }
    }
}
