//! Keys by the request line.

use limiter_core::Key;

use super::{Head, KeyExtractor, KeySource, MissingKey};

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

    fn source(&self) -> KeySource {
        KeySource::Shared
    }
}

/// Counts requests by the pattern of the axum route that matches, such as `/users/{id}`.
///
/// The layer must be added to a `Router`, by `layer` or `route_layer`. Requests that no route matches
/// share the key `""`. Outside of a `Router` the key is missing by a fault of the
/// [server](MissingKey::Server).
#[cfg(feature = "axum")]
#[derive(Clone, Copy, Debug, Default)]
pub struct MatchedPathKey;

#[cfg(feature = "axum")]
impl KeyExtractor for MatchedPathKey {
    fn key<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey> {
        use axum::extract::{MatchedPath, OriginalUri};

        match head.extensions.get::<MatchedPath>() {
            Some(path) => Ok(path.as_str().into()),
            // A router inserts it before it looks for a route.
            None if head.extensions.get::<OriginalUri>().is_some() => Ok("".into()),
            None => Err(MissingKey::server(
                "the request has no matched path: add the layer to an axum `Router`",
            )),
        }
    }

    fn source(&self) -> KeySource {
        KeySource::Shared
    }
}
