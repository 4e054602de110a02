//! Limits as text: `100/min burst 20 horizon 5min by gcra`.
//!
//! Every value prints in its shortest form, which reads back as the same value.

mod algorithm;
mod number;

use alloc::{
    format,
    string::{String, ToString},
    vec,
};
use core::{fmt, str::FromStr, time::Duration};

use self::number::{in_largest_unit, number, time};
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
        Self::from_limits(name, vec![written.limit(name, algorithm)?])
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
        let (number, unit) = in_largest_unit(horizon);
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
        let invalid = |fault| Error::invalid(ErrorKind::InvalidQuota, "limit", text.trim(), fault);
        let parts = Parts::split(text).map_err(invalid)?;
        let (horizon, algorithm) = (parts.horizon.as_deref(), parts.by.as_deref());
        if horizon == Some("") {
            return Err(invalid("the horizon is missing; write one, as in horizon 5min".into()));
        }
        if algorithm == Some("") {
            return Err(invalid(algorithm::missing()));
        }
        let horizon = horizon.map(|text| {
            let invalid = |fault| Error::invalid(ErrorKind::InvalidSetting, "horizon", text, fault);
            time(text).map_err(invalid)
        });
        let (horizon, algorithm) = (horizon.transpose()?, algorithm.map(str::parse).transpose()?);
        Ok(Self { quota: parts.quota_text().parse()?, horizon, algorithm })
    }

    /// Returns the limit, by `algorithm`.
    pub(crate) fn limit(self, name: &str, algorithm: Algorithm) -> Result<Limit, Error> {
        let limit = Limit::new(name, algorithm, self.quota)?;
        match self.horizon {
            Some(horizon) => limit.with_horizon(horizon),
            None => Ok(limit),
        }
    }
}

/// Writes the shortest text that reads back as the same quota.
impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.permits())?;
        match in_largest_unit(self.window()) {
            (1, unit) => f.write_str(unit)?,
            (number, unit) => write!(f, "{number}{unit}")?,
        }
        if self.burst() == self.permits() {
            return Ok(());
        }
        write!(f, " burst {}", self.burst())
    }
}

impl FromStr for Quota {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let quota = Parts::split(text).and_then(|parts| {
            if parts.horizon.is_some() || parts.by.is_some() {
                return Err("a quota has no horizon and no algorithm; leave them out".into());
            }
            parts.quota()
        });
        let invalid = |fault| Error::invalid(ErrorKind::InvalidQuota, "quota", text.trim(), fault);
        quota.map_err(invalid)
    }
}

/// A limit's text, split at its keywords, without surplus spaces.
#[derive(Default)]
struct Parts {
    /// What precedes the first keyword: permits, a slash and a window.
    rate: Option<String>,
    burst: Option<String>,
    horizon: Option<String>,
    by: Option<String>,
}

impl Parts {
    /// Splits a text, or returns its fault.
    fn split(text: &str) -> Result<Self, String> {
        let mut parts = Self::default();
        let mut part = &mut parts.rate;
        for word in text.split_whitespace() {
            part = match &*word.to_ascii_lowercase() {
                "burst" => &mut parts.burst,
                "horizon" => &mut parts.horizon,
                "by" => &mut parts.by,
                _ => {
                    let text = part.get_or_insert_default();
                    *text += if text.is_empty() { "" } else { " " };
                    *text += word;
                    continue;
                }
            };
            if part.replace(String::new()).is_some() {
                return Err(format!("{word:?} is given twice; use it once"));
            }
        }
        Ok(parts)
    }

    /// Returns the quota, or its fault.
    fn quota(&self) -> Result<Quota, String> {
        let rate = self.rate.as_deref().unwrap_or_default();
        let Some((permits, window)) = rate.split_once('/') else {
            return Err("it has no \"/\"; write permits per time, as in 100/min".into());
        };
        let permits = number("the number of permits", permits.trim_end())?;
        let quota = Quota::checked(permits, time(window.trim_start())?)?;
        match &self.burst {
            Some(burst) => Ok(quota.checked_burst(number("the burst", burst)?)?),
            None => Ok(quota),
        }
    }

    /// Returns the text of the quota.
    fn quota_text(&self) -> String {
        let rate = self.rate.as_deref().unwrap_or_default();
        match &self.burst {
            Some(burst) => format!("{rate} burst {burst}"),
            None => rate.into(),
        }
    }
}
