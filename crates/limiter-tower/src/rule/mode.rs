//! For which keys a rule is enforced.

use limiter_core::{Error, ErrorKind, Key};
use siphasher::sip::SipHasher13;

/// For which keys a rule is enforced. For the others it is a shadow.
///
/// A shadow charges its limiter and reports its decisions, to observers and in the extensions, but it
/// neither refuses, queues nor adds header fields. It decides after the other rules have admitted the request, which
/// still waits for its decision: in memory that is nothing, with a store it is a round trip, at most the limiter's
/// deadline. A shadow forwards a request without a key; a sample rejects it as an enforced rule does. A new limit
/// is rolled out as a shadow, then for a percentage of keys, then for all.
///
/// ```
/// use limiter_tower::rule::Mode;
///
/// let a_tenth = Mode::sample(10)?;
/// let error = Mode::sample(101).unwrap_err();
/// assert_eq!(error.to_string(), "invalid percentage 101: it must be at most 100");
/// # Ok::<(), limiter_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mode {
    /// At most 100.
    enforced_percent: u8,
}

impl Mode {
    /// Enforces the rule for all keys. The default.
    pub const ENFORCE: Self = Self { enforced_percent: 100 };

    /// Enforces the rule for no key.
    pub const SHADOW: Self = Self { enforced_percent: 0 };

    /// Enforces the rule for `percent` of all keys: the same ones in every process, and more of them
    /// as the percentage rises.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidSetting`] if `percent` is above 100.
    pub fn sample(percent: u8) -> Result<Self, Error> {
        if percent > 100 {
            let message = format!("invalid percentage {percent}: it must be at most 100");
            return Err(Error::new(ErrorKind::InvalidSetting, message));
        }
        Ok(Self { enforced_percent: percent })
    }

    /// Returns for how many percent of the keys the rule is enforced.
    #[must_use]
    pub const fn percent(self) -> u8 {
        self.enforced_percent
    }

    pub(super) const fn of_percent(enforced_percent: u8) -> Self {
        Self { enforced_percent }
    }

    /// Returns whether a rule of this name is enforced for `key`.
    pub(crate) fn enforces(self, rule: &str, key: &Key<'_>) -> bool {
        match self {
            Self::ENFORCE => true,
            Self::SHADOW => false,
            // The name, so that each rule has other keys in its sample.
            _ => hash(rule, key) % 100 < u64::from(self.enforced_percent),
        }
    }
}

impl Default for Mode {
    fn default() -> Self {
        Self::ENFORCE
    }
}

/// Returns a hash that is the same in all processes and versions.
fn hash(rule: &str, key: &Key<'_>) -> u64 {
    let mut text = Vec::new();
    Key::tuple([rule.into(), key.into()]).encode(&mut text);
    SipHasher13::new().hash(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_stable_grows_with_the_percentage_and_has_its_share() {
        let enforced = |percent, key: u32| Mode::of_percent(percent).enforces("api", &key.into());
        // Not to be changed: processes of other versions must choose the same keys.
        assert_eq!(hash("api", &"alice".into()), 3_618_597_790_790_659_520);
        for percent in [0, 1, 10, 50, 99, 100] {
            let share = (0..10_000).filter(|key| enforced(percent, *key)).count();
            let expected = usize::from(percent) * 100;
            assert!(share.abs_diff(expected) <= 200, "{share} of 10,000 keys at {percent} %");
        }
        for key in (0..1_000).filter(|key| enforced(10, *key)) {
            assert!(enforced(11, key) && enforced(50, key));
        }
    }
}
