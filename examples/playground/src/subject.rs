//! Whose requests are counted: the `subject` of the request's query.

use axum::http::Uri;
use limiter_core::Key;
use limiter_tower::key::{Head, KeyExtractor, KeySource, MissingKey};

/// The longest subject, in bytes. The server keeps the names of those that are refused most.
const LONGEST: usize = 64;

/// Counts requests by the subject that they name, such as `/limited?subject=alice`.
///
/// Clients choose it, so that one browser can play many users. Use it for nothing else: a client that
/// chooses its key has any number of allowances.
pub(crate) struct BySubject;

impl KeyExtractor for BySubject {
    fn key<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey> {
        match find(head.uri()) {
            None => Err(MissingKey::absent("the query has no subject; add ?subject=alice")),
            Some(subject) if subject.len() > LONGEST => {
                Err(MissingKey::invalid("the subject is longer than 64 bytes; use a shorter one"))
            }
            Some(subject) => Ok(subject.into()),
        }
    }

    /// Clients do choose it. A real service would return `KeySource::Chosen`, and the layer would demand a rule by
    /// address beside this one.
    fn source(&self) -> KeySource {
        KeySource::Own
    }
}

/// Returns the subject as it is written in the query, without decoding it.
pub(crate) fn find(uri: &Uri) -> Option<&str> {
    uri.query()?.split('&').find_map(|pair| pair.strip_prefix("subject="))
}
