//! A key by a closure.

use std::fmt;

use http::request::Parts;
use limiter_core::Key;

use super::{KeyExtractor, MissingKey};

/// Returns an extractor that asks `find`, which returns `None` where there is no key.
///
/// Write the closure in the call: one that was bound to a variable before has no lifetimes to
/// borrow the key from the request with.
///
/// ```
/// use limiter_core::Key;
/// use limiter_tower::key_fn;
///
/// let by_path = key_fn(|request| Some(request.uri.path().into()));
///
/// let by_path_and_tenant = key_fn(|request| {
///     let tenant = request.headers.get("x-tenant")?;
///     Some(Key::tuple([request.uri.path().into(), tenant.as_bytes().into()]))
/// });
/// ```
pub const fn key_fn<F>(find: F) -> KeyFn<F>
where
    F: for<'r> Fn(&'r Parts) -> Option<Key<'r>> + Send + Sync,
{
    KeyFn(find)
}

/// The extractor that [`key_fn`] returns.
#[derive(Clone, Copy)]
pub struct KeyFn<F>(F);

impl<F> KeyExtractor for KeyFn<F>
where
    F: for<'r> Fn(&'r Parts) -> Option<Key<'r>> + Send + Sync,
{
    fn extract<'r>(&self, request: &'r Parts) -> Result<Key<'r>, MissingKey> {
        (self.0)(request).ok_or_else(|| MissingKey::client("the request has no rate limit key"))
    }
}

impl<F> fmt::Debug for KeyFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyFn")
    }
}
