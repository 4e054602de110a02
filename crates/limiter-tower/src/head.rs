//! A request without its body.

use std::sync::LazyLock;

use http::{Extensions, HeaderMap, Method, Request, Uri, request::Parts};

/// The head of a request: all but its body.
///
/// Extractors, and the closures that configure a layer, read it. It is a few references, so it is
/// passed by value.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Head<'r> {
    /// The method.
    pub method: &'r Method,
    /// The target.
    pub uri: &'r Uri,
    /// The header fields.
    pub headers: &'r HeaderMap,
    /// What the server and outer layers have added.
    pub extensions: &'r Extensions,
}

impl Head<'static> {
    /// Returns the head of no request: `GET /` without header fields, for jobs and messages that are
    /// [checked](crate::handle::RuleHandle::check) outside of a request.
    #[must_use]
    pub fn empty() -> Self {
        static EMPTY: LazyLock<Request<()>> = LazyLock::new(Request::default);
        Head::from(&*EMPTY)
    }
}

impl<'r> Head<'r> {
    /// Returns the path of the target.
    #[must_use]
    pub fn path(self) -> &'r str {
        self.uri.path()
    }

    /// Returns whether this is a CORS preflight: `OPTIONS` with `Origin` and
    /// `Access-Control-Request-Method` ([Fetch, section 3.3.2]).
    ///
    /// [Fetch, section 3.3.2]: https://fetch.spec.whatwg.org/#http-requests
    #[must_use]
    pub fn is_preflight(&self) -> bool {
        use http::header::{ACCESS_CONTROL_REQUEST_METHOD, ORIGIN};
        self.method == Method::OPTIONS
            && self.headers.contains_key(ORIGIN)
            && self.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
    }
}

impl<'r, B> From<&'r Request<B>> for Head<'r> {
    fn from(request: &'r Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }
}

impl<'r> From<&'r Parts> for Head<'r> {
    fn from(parts: &'r Parts) -> Self {
        Self {
            method: &parts.method,
            uri: &parts.uri,
            headers: &parts.headers,
            extensions: &parts.extensions,
        }
    }
}
