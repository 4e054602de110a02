//! The key under which a rule counts a request.
//!
//! A [`KeyExtractor`] finds a key in every request: [`ClientIp`], [`FixedKey`], [`MethodKey`], [`MatchedPathKey`], and
//! tuples of extractors. A [`MaybeKey`] may find none: [`ExtensionKey`], [`HeaderKey`] and [`key_fn`]. Say what then,
//! and it is a [`KeyExtractor`]:
//!
//! | ending | a request without the key |
//! |---|---|
//! | [`.or(other)`](MaybeKey::or) | is counted under another key, such as the address |
//! | [`.or_reject()`](MaybeKey::or_reject) | is answered with 400 |
//! | [`.or_skip()`](MaybeKey::or_skip) | is not counted by this rule |
//! | [`.or_shared()`](MaybeKey::or_shared) | is counted under one key for all of them |

mod client_ip;
mod closure;
mod extension;
mod extractor;
mod fixed;
mod header;
mod maybe;
mod missing;
mod route;
mod tuple;

#[cfg(feature = "axum")]
pub use self::route::MatchedPathKey;
pub use self::{
    client_ip::{ClientIp, Networks, PeerAddr},
    closure::key_fn,
    extension::ExtensionKey,
    extractor::{KeyExtractor, KeySource},
    fixed::FixedKey,
    header::HeaderKey,
    maybe::MaybeKey,
    missing::MissingKey,
    route::MethodKey,
};
pub use crate::head::Head;
