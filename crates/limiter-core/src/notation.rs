//! Limits as text: `100/min burst 20 horizon 5min by gcra`.
//!
//! Every value prints in its shortest form, which reads back as the same value.

mod algorithm;
mod number;

use alloc::{format, string::String, vec, vec::Vec};
use core::{fmt, str::FromStr, time::Duration};

use self::number::{in_largest_unit, number, time};
use crate::{Algorithm, Error, ErrorKind, Limit, Policy, Quota, error::excerpt};

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
    /// [`ErrorKind::InvalidQuota`] if the text can't be read, or the algorithm can't serve the quota.
    ///
    /// [`ErrorKind::InvalidSetting`] if the limit can't have the horizon: see
    /// [`Policy::with_horizon`].
    ///
    /// [`ErrorKind::InvalidName`] as [`Policy::new`].
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        let limit = LimitText::parse(text)?.limit(name, Some(Algorithm::Gcra))?;
        Self::from_limits(name, vec![limit])
    }
}

/// Writes the limit as [`Policy::parse`] reads it, without its name.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.quota().fmt(f)?;
        if let Some(horizon) = self.own_horizon {
            let (number, unit) = in_largest_unit(horizon);
            write!(f, " horizon {number}{unit}")?;
        }
        match self.algorithm() {
            Algorithm::Gcra => Ok(()),
            algorithm => write!(f, " by {algorithm}"),
        }
    }
}

/// What the text of a limit contains. Optional parts are `None`.
#[derive(Debug)]
pub(crate) struct LimitText {
    quota: Quota,
    /// And the words that it was read from.
    horizon: Option<(Duration, String)>,
    algorithm: Option<Algorithm>,
}

impl LimitText {
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        Self::read(text).map_err(|fault| invalid("limit", text, &fault))
    }

    /// Returns the limit, by `default` if the text names no algorithm.
    pub(crate) fn limit(&self, name: &str, default: Option<Algorithm>) -> Result<Limit, Error> {
        let algorithm = self.algorithm.or(default).ok_or_else(|| {
            let fault = "the policy has no limit of this name; rename it or add its algorithm";
            Error::invalid(ErrorKind::InvalidSetting, "limit", name, fault)
        })?;
        match &self.horizon {
            Some((horizon, given)) => {
                Limit::unchecked(name, algorithm, self.quota).with_horizon(*horizon, given)
            }
            None => Limit::new(name, algorithm, self.quota),
        }
    }

    /// Reads a text, or returns its fault.
    fn read(text: &str) -> Result<Self, String> {
        let is_keyword = |word: &str| {
            ["burst", "horizon", "by"].iter().any(|keyword| word.eq_ignore_ascii_case(keyword))
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        if let Some(second) = words.iter().filter(|word| word.contains('/')).nth(1) {
            let remedy = "write one limit, and combine several with `Policy::all_of` or in a file";
            return Err(format!("{second:?} is a second limit; {remedy}"));
        }
        let mut parts = words.chunk_by(|_, word| !is_keyword(word));

        let rate = parts.next().unwrap_or_default().join(" ");
        let Some((permits, window)) = rate.split_once('/') else {
            return Err("it has no \"/\"; write permits per time, as in 100/min".into());
        };
        let permits = number("the number of permits", permits.trim_end())?;
        let window: Vec<&str> = window.split_whitespace().collect();
        let mut quota = Quota::checked(permits, only_time(&window)?)?;

        let (mut burst, mut horizon, mut algorithm) = (None, None, None);
        for part in parts {
            let [keyword, value @ ..] = part else { continue };
            if value.is_empty() {
                return Err(format!("{keyword:?} has no value; add one, or remove it"));
            }
            let is_duplicate = match &*keyword.to_ascii_lowercase() {
                "burst" => burst.replace(number("the burst", only_word(value)?)?).is_some(),
                "horizon" => horizon.replace((only_time(value)?, value.join(" "))).is_some(),
                _ => algorithm.replace(algorithm::read(&value.join(" "))?).is_some(),
            };
            if is_duplicate {
                return Err(format!("{keyword:?} is given twice; use it once"));
            }
        }
        if let Some(burst) = burst {
            quota = quota.checked_burst(burst)?;
        }
        Ok(Self { quota, horizon, algorithm })
    }
}

/// Returns the only word, or the fault of the next one.
fn only_word<'a>(words: &[&'a str]) -> Result<&'a str, String> {
    match words {
        [] => Ok(""),
        [word] => Ok(word),
        [_, unexpected, ..] => {
            Err(format!("unexpected {:?}; use burst, horizon or by", excerpt(unexpected)))
        }
    }
}

/// Returns the time of one word or two, or the fault of the next one.
fn only_time(words: &[&str]) -> Result<Duration, String> {
    let (first, others) = words.split_first().unwrap_or((&"", &[]));
    if let Ok(time) = time(first) {
        return only_word(words).map(|_| time);
    }
    match others.split_first() {
        Some((unit, _)) if let Ok(time) = time(&[*first, unit].join(" ")) => {
            only_word(others).map(|_| time)
        }
        _ => time(&words.join(" ")),
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
        let quota = LimitText::read(text).and_then(|limit| match limit {
            LimitText { quota, horizon: None, algorithm: None } => Ok(quota),
            _ => Err("a quota has no horizon and no algorithm; leave them out".into()),
        });
        quota.map_err(|fault| invalid("quota", text, &fault))
    }
}

fn invalid(what: &str, text: &str, fault: &str) -> Error {
    Error::invalid(ErrorKind::InvalidQuota, what, text.trim(), fault)
}
