//! Keys by the request line.

use limiter_core::Key;

use super::{KeyExtractor, MissingKey};
use crate::Head;

/// Counts requests by the path of their target, without the query.
///
/// A client can invent paths, and each has its own allowance. Therefore a layer accepts this key only
/// beside a rule with another key. Prefer
#[cfg_attr(feature = "axum", doc = "[`MatchedPathKey`].")]
#[cfg_attr(not(feature = "axum"), doc = "`MatchedPathKey`.")]
#[derive(Clone, Copy, Debug, Default)]
pub struct PathKey;

impl KeyExtractor for PathKey {
    fn key<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey> {
        Ok(head.path().into())
    }

    fn is_client_chosen(&self) -> bool {
        true
    }
}

/// Counts requests by their method. All methods that RFC 9110 and RFC 5789 do not define share one
/// key, because a client can invent others.
#[derive(Clone, Copy, Debug, Default)]
pub struct MethodKey;

impl KeyExtractor for MethodKey {
    fn key<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey> {
        let is_known = matches!(
            head.method.as_str(),
            "GET" | "HEAD" | "POST" | "PUT" | "DELETE" | "CONNECT" | "OPTIONS" | "TRACE" | "PATCH"
        );
        Ok(if is_known { head.method.as_str() } else { "" }.into())
    }
}

/// Counts requests by the pattern of the axum route that matches, such as `/users/{id}`.
///
/// The layer must be added to a `Router`, by `layer` or `route_layer`. Requests that no route matches
/// have the key `""`, so all of them share one.
#[cfg(feature = "axum")]
#[derive(Clone, Copy, Debug, Default)]
pub struct MatchedPathKey;

#[cfg(feature = "axum")]
impl KeyExtractor for MatchedPathKey {
    fn key<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey> {
        let path = head.extensions.get::<axum::extract::MatchedPath>();
        Ok(path.map_or("", |path| path.as_str()).into())
    }
}
