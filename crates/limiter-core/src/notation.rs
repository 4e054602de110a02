//! How limits are written: text that people type, and that prints as it was read.
//!
//! A limit is a quota, and the algorithm where that is not GCRA:
//! `100/min burst 20 by token-bucket`.

mod kind;
mod number;
mod quota;

use core::fmt;

use crate::{Error, Kind, Limit, Policy, Quota};

impl Policy {
    /// Returns a policy of one limit, read from `text`: a [quota](Quota#notation), and after `by`
    /// its [algorithm](Kind#notation), which is GCRA if nothing else is said.
    ///
    /// A [`Limit`] prints as such a text.
    ///
    /// ```
    /// use limiter_core::{Kind, Policy};
    ///
    /// let policy = Policy::parse("search", "100/min burst 20")?;
    /// assert_eq!((policy.limits()[0].kind(), policy.limits()[0].quota().burst()), (Kind::Gcra, 20));
    ///
    /// let policy = Policy::parse("login", "5/min by sliding-log")?;
    /// assert_eq!(policy.limits()[0].to_string(), "5/min by sliding-log");
    /// # Ok::<(), limiter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidQuota`](crate::ErrorKind::InvalidQuota) if the quota can't be read, or
    /// the algorithm can't apply it.
    ///
    /// [`ErrorKind::InvalidSetting`](crate::ErrorKind::InvalidSetting) if the algorithm can't be
    /// read.
    ///
    /// [`ErrorKind::InvalidName`](crate::ErrorKind::InvalidName) as [`Policy::new`].
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        let (quota, kind) = parse_limit(text)?;
        Self::new(name, kind.unwrap_or(Kind::Gcra), quota)
    }
}

/// Writes the limit as [`Policy::parse`] reads it, without its name.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.quota().fmt(f)?;
        match self.kind() {
            Kind::Gcra => Ok(()),
            kind => write!(f, " by {kind}"),
        }
    }
}

/// Returns the quota, and the algorithm if one is named.
pub(crate) fn parse_limit(text: &str) -> Result<(Quota, Option<Kind>), Error> {
    let (quota, kind) = match split_at_by(text) {
        Some((quota, kind)) => (quota, Some(kind.parse()?)),
        None => (text, None),
    };
    Ok((quota.parse()?, kind))
}

/// Returns what stands before and after the first word `by`.
fn split_at_by(text: &str) -> Option<(&str, &str)> {
    text.match_indices("by").find_map(|(at, by)| {
        let (before, after) = (text.get(..at)?, text.get(at + by.len()..)?);
        let is_word = (before.is_empty() || before.ends_with(char::is_whitespace))
            && (after.is_empty() || after.starts_with(char::is_whitespace));
        is_word.then_some((before, after))
    })
}
