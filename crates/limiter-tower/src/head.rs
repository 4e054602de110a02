//! Requests and responses without their bodies.

use std::{fmt, sync::LazyLock};

use http::{Extensions, HeaderMap, Method, Request, Response, StatusCode, Uri, request::Parts};

/// The head of a request: all but its body.
///
/// Extractors, and the closures that configure a rule, read it. It is a few references, so it is passed by value.
/// `Debug` prints the method and the path, because queries and header fields may contain credentials.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Head<'r> {
    /// The method.
    pub method: &'r Method,
    /// The header fields.
    pub headers: &'r HeaderMap,
    /// What the server and outer layers have added.
    pub extensions: &'r Extensions,
    uri: &'r Uri,
}

impl Head<'static> {
    /// Returns the head of no request: `GET /` without header fields, for jobs and messages.
    #[must_use]
    pub fn empty() -> Self {
        static EMPTY: LazyLock<Request<()>> = LazyLock::new(Request::default);
        Head::from(&*EMPTY)
    }
}

impl<'r> Head<'r> {
    /// Returns the target, as the client has sent it.
    ///
    /// With the feature `axum` it is the original one also inside of `Router::nest`, which removes the prefix from the
    /// request's own.
    #[must_use]
    pub fn uri(self) -> &'r Uri {
        #[cfg(feature = "axum")]
        if let Some(axum::extract::OriginalUri(uri)) = self.extensions.get() {
            return uri;
        }
        self.uri
    }

    /// Returns the pattern of the axum route that matches, such as `/users/{id}`, also inside of `Router::nest`. `None`
    /// outside of a `Router`, for its fallback, and in a service that is nested by `nest_service`.
    ///
    /// Decide by it and not by [`path`](Self::path), which the client can write in other ways, such as `/users/%31`.
    #[cfg(feature = "axum")]
    #[must_use]
    pub fn matched_path(self) -> Option<&'r str> {
        self.extensions.get().map(axum::extract::MatchedPath::as_str)
    }

    /// Returns the path of [`uri`](Self::uri): as the client has sent it, who may write the same path in several ways.
    #[must_use]
    pub fn path(self) -> &'r str {
        self.uri().path()
    }
}

impl<'r, B> From<&'r Request<B>> for Head<'r> {
    fn from(request: &'r Request<B>) -> Self {
        Self {
            method: request.method(),
            headers: request.headers(),
            extensions: request.extensions(),
            uri: request.uri(),
        }
    }
}

impl<'r> From<&'r Parts> for Head<'r> {
    fn from(parts: &'r Parts) -> Self {
        Self {
            method: &parts.method,
            headers: &parts.headers,
            extensions: &parts.extensions,
            uri: &parts.uri,
        }
    }
}

impl fmt::Debug for Head<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Head")
            .field("method", self.method)
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}

/// The head of a response: all but its body. `Debug` prints the status.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct ResponseHead<'r> {
    /// The status code. A gRPC service reports errors in `grpc-status` instead.
    pub status: StatusCode,
    /// The header fields.
    pub headers: &'r HeaderMap,
    /// What the inner service has added.
    pub extensions: &'r Extensions,
}

impl<'r, B> From<&'r Response<B>> for ResponseHead<'r> {
    fn from(response: &'r Response<B>) -> Self {
        Self {
            status: response.status(),
            headers: response.headers(),
            extensions: response.extensions(),
        }
    }
}

impl fmt::Debug for ResponseHead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseHead").field("status", &self.status).finish_non_exhaustive()
    }
}

/// Makes a type that a layer inserts into the extensions an extractor of axum.
#[cfg(feature = "axum")]
macro_rules! extractor {
    ($type:ty, $absent:literal) => {
        impl<S: Sync> axum::extract::FromRequestParts<S> for $type {
            type Rejection = (http::StatusCode, &'static str);

            async fn from_request_parts(
                parts: &mut http::request::Parts,
                _: &S,
            ) -> Result<Self, Self::Rejection> {
                let inserted = parts.extensions.get().cloned();
                inserted.ok_or((http::StatusCode::INTERNAL_SERVER_ERROR, $absent))
            }
        }
    };
}
#[cfg(feature = "axum")]
pub(crate) use extractor;
