//! Limits as text: `100/min burst 20 horizon 5min by gcra`.
//!
//! Every value prints in its shortest form, which reads back as the same value.

mod algorithm;
mod duration;
mod number;
mod parts;
mod quota;

use alloc::{
    format,
    string::{String, ToString},
    vec,
};
use core::{fmt, time::Duration};

use self::parts::Parts;
use crate::{Algorithm, Error, ErrorKind, Limit, Policy, Quota};

impl Policy {
    /// Returns a policy of one limit, read from `text`.
    ///
    /// The text is a [quota](Quota#notation), then a horizon and an
    /// [algorithm](Algorithm#notation) if they differ from the defaults. The horizon is `horizon`
    /// and a time as in a quota's window; the algorithm follows `by`. Keywords and algorithms may be
    /// in upper case.
    ///
    /// A [`Limit`] prints as such a text.
    ///
    /// ```
    /// use limiter_core::{Algorithm, Policy};
    ///
    /// let search = Policy::parse("search", "100/min burst 20 horizon 5min")?;
    /// let limit = &search.limits()[0];
    /// assert_eq!((limit.algorithm(), limit.quota().burst()), (Algorithm::Gcra, 20));
    /// assert_eq!(limit.horizon().as_secs(), 300);
    ///
    /// let login = Policy::parse("login", "5/60s by sliding-log")?;
    /// assert_eq!(login.limits()[0].to_string(), "5/min by sliding-log");
    /// # Ok::<(), limiter_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidQuota`] if the quota can't be read, or the algorithm can't serve it.
    ///
    /// [`ErrorKind::InvalidSetting`] if the horizon or the algorithm can't be read or combined.
    ///
    /// [`ErrorKind::InvalidName`] as [`Policy::new`].
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        let written = Written::parse(text)?;
        let algorithm = written.algorithm.unwrap_or(Algorithm::Gcra);
        Self::from_limits(name, vec![written.limit("policy", name, algorithm)?])
    }
}

/// Writes the limit as [`Policy::parse`] reads it, without its name.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text(self, Some(Algorithm::Gcra)))
    }
}

/// Returns the limit's text, without its algorithm if that is `default`.
pub(crate) fn text(limit: &Limit, default: Option<Algorithm>) -> String {
    let mut text = limit.quota().to_string();
    if let Some(horizon) = limit.own_horizon() {
        let (number, unit) = duration::in_largest_unit(horizon);
        text += &format!(" horizon {number}{unit}");
    }
    if default != Some(limit.algorithm()) {
        text += &format!(" by {}", limit.algorithm());
    }
    text
}

/// A limit as it was read; what was left out is `None`.
#[derive(Debug)]
pub(crate) struct Written {
    quota: Quota,
    horizon: Option<Duration>,
    pub(crate) algorithm: Option<Algorithm>,
}

impl Written {
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        use ErrorKind::{InvalidQuota, InvalidSetting};
        let invalid = |fault| Error::invalid(InvalidQuota, "limit", text.trim(), fault);
        let parts = Parts::split(text).map_err(invalid)?;
        let horizon = match parts.horizon.as_deref() {
            None => None,
            Some("") => {
                let fault = "the horizon is missing; write one, as in horizon 5min";
                return Err(invalid(fault.into()));
            }
            Some(horizon) => Some(
                duration::parse(horizon)
                    .map_err(|fault| Error::invalid(InvalidSetting, "horizon", horizon, fault))?,
            ),
        };
        let algorithm = match parts.by.as_deref() {
            None => None,
            Some("") => return Err(invalid(algorithm::missing())),
            Some(algorithm) => Some(algorithm.parse()?),
        };
        let quota = quota::parse(&parts)
            .map_err(|fault| Error::invalid(InvalidQuota, "quota", parts.quota().trim(), fault))?;
        Ok(Self { quota, horizon, algorithm })
    }

    /// Returns the limit, by `algorithm`. The name is that of a `"limit"`, or of a `"policy"` that has
    /// only this limit.
    pub(crate) fn limit(
        self,
        what: &str,
        name: &str,
        algorithm: Algorithm,
    ) -> Result<Limit, Error> {
        let limit = Limit::new(what, name, algorithm, self.quota)?;
        match self.horizon {
            Some(horizon) => limit.with_horizon(horizon),
            None => Ok(limit),
        }
    }
}
