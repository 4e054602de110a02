//! A quota with a name and an algorithm.

use alloc::{format, sync::Arc};

use crate::{Error, ErrorKind, Quota};

/// A named limit: which algorithm applies which quota.
///
/// The name stands in response headers, in log lines and metrics, and in a shared store's keys:
/// two policies with the same name in one store share their state. A clone is cheap.
///
/// ```
/// use limiter_core::{Policy, Quota};
///
/// let policy = Policy::gcra("search", Quota::per_second(10)?)?;
/// assert_eq!(policy.name(), "search");
/// # Ok::<(), limiter_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    name: Arc<str>,
    quota: Quota,
}

impl Policy {
    /// The longest name, in bytes.
    pub const MAX_NAME: usize = 64;

    /// Returns a policy that applies `quota` by GCRA, the generic cell rate algorithm.
    ///
    /// See [`Gcra`](crate::algorithm::Gcra) for what it does.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidName`] if `name` is empty, longer than [`Policy::MAX_NAME`], or has a
    /// character that is not printable ASCII: a structured header field can't carry it
    /// (RFC 9651, section 3.3.3).
    pub fn gcra(name: &str, quota: Quota) -> Result<Self, Error> {
        let fault = if name.is_empty() {
            "it is empty"
        } else if name.len() > Self::MAX_NAME {
            "it is longer than 64 bytes"
        } else if !name.bytes().all(|byte| matches!(byte, 0x20..=0x7e)) {
            "only printable ASCII can stand in a header field"
        } else {
            return Ok(Self { name: name.into(), quota });
        };
        Err(Error::new(ErrorKind::InvalidName, format!("the policy name {name:?}: {fault}")))
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the quota.
    #[must_use]
    pub const fn quota(&self) -> &Quota {
        &self.quota
    }
}
