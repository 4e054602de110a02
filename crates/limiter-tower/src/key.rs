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
mod digest;
mod extension;
mod extractor;
mod fixed;
mod header;
mod maybe;
mod missing;
mod route;
mod tuple;

pub(crate) use self::digest::Digests;
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

#[cfg(test)]
mod tests {
    /// Returns the names that end with `Key`, which extractors have, of those that this file re-exports.
    fn extractors() -> impl Iterator<Item = &'static str> {
        let code = include_str!("key.rs").lines().take_while(|line| *line != "mod tests {");
        let code = code.skip_while(|line| !line.contains("pub use self"));
        let words = code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric()));
        words.filter(|word| word.ends_with("Key") && !["MaybeKey", "MissingKey"].contains(word))
    }

    #[test]
    fn the_chapter_on_keys_names_each_extractor() {
        let chapter = include_str!("../docs/guide/keys.md");
        assert!(extractors().any(|name| name == "MatchedPathKey"));
        for name in extractors() {
            assert!(chapter.contains(&format!("`{name}`")), "{name} is not in docs/guide/keys.md");
        }
    }
}
