//! A limit's text, split into its parts.

use alloc::{format, string::String, vec::Vec};

/// A limit's text, split at its keywords, without surplus spaces.
#[derive(Default)]
pub(super) struct Parts {
    /// What precedes the first keyword: permits, a slash and a window.
    pub(super) rate: Option<String>,
    pub(super) burst: Option<String>,
    pub(super) horizon: Option<String>,
    pub(super) by: Option<String>,
}

impl Parts {
    const KEYWORDS: [&str; 3] = ["burst", "horizon", "by"];

    /// Splits a text, or returns its fault.
    pub(super) fn split(text: &str) -> Result<Self, String> {
        let keyword = |word: &str| {
            Self::KEYWORDS.into_iter().find(|keyword| keyword.eq_ignore_ascii_case(word))
        };
        let mut parts = Self::default();
        let words: Vec<&str> = text.split_whitespace().collect();
        for chunk in words.chunk_by(|_, next| keyword(next).is_none()) {
            let Some((first, rest)) = chunk.split_first() else { continue };
            let (part, value) = match keyword(first) {
                Some("burst") => (&mut parts.burst, rest),
                Some("horizon") => (&mut parts.horizon, rest),
                Some(_) => (&mut parts.by, rest),
                None => (&mut parts.rate, chunk),
            };
            if part.replace(value.join(" ")).is_some() {
                return Err(format!("{first:?} is given twice; use it once"));
            }
        }
        Ok(parts)
    }

    /// Returns the text of the quota.
    pub(super) fn quota(&self) -> String {
        let rate = self.rate.as_deref().unwrap_or_default();
        match &self.burst {
            Some(burst) => format!("{rate} burst {burst}"),
            None => rate.into(),
        }
    }
}
