//! A key by a closure.

use std::fmt;

use limiter_core::Key;

use super::{KeyExtractor, MissingKey};
use crate::Head;

/// Returns an extractor that calls `find`, which returns `None` if the key is absent.
///
/// Write the closure in the call: the compiler does not infer a lifetime for a closure that was bound
/// to a variable before.
///
/// ```
/// use limiter_core::Key;
/// use limiter_tower::key_fn;
///
/// let by_path = key_fn(|head| Some(head.path().into()));
///
/// let by_path_and_tenant = key_fn(|head| {
///     let tenant = head.headers.get("x-tenant")?;
///     Some(Key::tuple([head.path().into(), tenant.as_bytes().into()]))
/// });
/// ```
pub const fn key_fn<F>(find: F) -> KeyFn<F>
where
    F: for<'r> Fn(Head<'r>) -> Option<Key<'r>> + Send + Sync,
{
    KeyFn(find)
}

/// The extractor that [`key_fn`] returns.
#[derive(Clone, Copy)]
pub struct KeyFn<F>(F);

impl<F> KeyExtractor for KeyFn<F>
where
    F: for<'r> Fn(Head<'r>) -> Option<Key<'r>> + Send + Sync,
{
    fn key<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey> {
        (self.0)(head).ok_or_else(|| MissingKey::absent("the request has no rate limit key"))
    }
}

impl<F> fmt::Debug for KeyFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyFn")
    }
}
