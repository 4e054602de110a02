//! A key by a closure.

use limiter_core::Key;

use super::{Head, KeySource, MaybeKey, MissingKey};

/// Returns an extractor that calls `find`, which returns `None` if the key is absent.
///
/// The layer can't see what the closure reads, so the key counts as
/// [chosen by the client](KeySource::Chosen) unless it is
/// [`assume_verified`](MaybeKey::assume_verified) or [`shared`](MaybeKey::shared).
///
/// Write the closure in the call: the compiler does not infer a lifetime for a closure that was bound
/// to a variable before.
///
/// ```
/// use limiter_core::Key;
/// use limiter_tower::key::{MaybeKey, key_fn};
///
/// // A gateway in front sets this field, and removes what clients send.
/// let by_tenant = key_fn(|head| Some(head.headers.get("x-tenant")?.as_bytes().into())).assume_verified().or_reject();
///
/// // Beside a rule by address.
/// let by_path_and_language = key_fn(|head| {
///     let language = head.headers.get("accept-language")?;
///     Some(Key::tuple([head.path().into(), language.as_bytes().into()]))
/// })
/// .or_skip();
/// ```
pub const fn key_fn<F>(find: F) -> impl MaybeKey
where
    F: for<'r> Fn(Head<'r>) -> Option<Key<'r>> + Send + Sync,
{
    KeyFn(find)
}

struct KeyFn<F>(F);

impl<F> MaybeKey for KeyFn<F>
where
    F: for<'r> Fn(Head<'r>) -> Option<Key<'r>> + Send + Sync,
{
    fn find<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey> {
        (self.0)(head).ok_or_else(|| MissingKey::absent("the request has no rate limit key"))
    }

    fn source(&self) -> KeySource {
        KeySource::Chosen
    }
}
