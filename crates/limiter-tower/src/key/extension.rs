//! A key by what an outer layer has inserted.

use std::{any::type_name, fmt, marker::PhantomData};

use limiter_core::Key;

use super::{Head, KeySource, MaybeKey, MissingKey};

/// Counts requests by a value in their extensions, such as the user that an authentication layer has
/// inserted.
///
/// Without the value the key is [absent](MissingKey::Absent). The layer that inserts the value has to
/// verify it: a value copied from a header field is chosen by the client.
///
/// ```
/// use limiter_tower::{ClientIp, key::{ExtensionKey, MaybeKey}};
///
/// #[derive(Clone)]
/// struct User {
///     id: u64,
/// }
///
/// // The user if one is logged in, else the address.
/// let key = ExtensionKey::new(|user: &User| user.id.into()).or(ClientIp::peer());
/// ```
pub struct ExtensionKey<T, F> {
    key: F,
    value: PhantomData<fn(&T)>,
}

impl<T, F> ExtensionKey<T, F>
where
    T: Send + Sync + 'static,
    F: for<'t> Fn(&'t T) -> Key<'t> + Send + Sync,
{
    /// Returns an extractor that applies `key` to the value of type `T`.
    pub const fn new(key: F) -> Self {
        Self { key, value: PhantomData }
    }
}

impl<T, F> MaybeKey for ExtensionKey<T, F>
where
    T: Send + Sync + 'static,
    F: for<'t> Fn(&'t T) -> Key<'t> + Send + Sync,
{
    fn find<'r>(&self, head: Head<'r>) -> Result<Key<'r>, MissingKey> {
        match head.extensions.get::<T>() {
            Some(value) => Ok((self.key)(value)),
            None => Err(MissingKey::absent("the request has no verified identity")),
        }
    }

    fn source(&self) -> KeySource {
        KeySource::Own
    }
}

impl<T, F: Copy> Copy for ExtensionKey<T, F> {}

impl<T, F: Clone> Clone for ExtensionKey<T, F> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), value: PhantomData }
    }
}

impl<T, F> fmt::Debug for ExtensionKey<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ExtensionKey").field(&type_name::<T>()).finish()
    }
}
