//! The texts by which the server knows the states of a limit, such as `hour/fixed-window.3600s`.
//!
//! [`Policy::identities`](limiter_core::Policy::identities) makes them.

use std::time::Duration;

use limiter_core::{Block, Quota};

/// A limit's states, as far as their name shows them. Quotas that share states have the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The text itself.
    pub(crate) text: String,
    /// The limit's name, `None` if it is the policy's only one or has its name.
    pub(crate) limit: Option<String>,
    pub(crate) family: Family,
    /// By GCRA the time in which a burst recovers, otherwise that for which permits count.
    pub(crate) span: Duration,
    /// The length of a slot of sub-windows.
    slot: Option<Duration>,
    /// How far ahead permits may be reserved, if that is not the default.
    horizon: Option<Duration>,
}

/// A family of algorithms, which share the form of their states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Gcra,
    /// The end of a block, whatever its length is.
    Block,
    FixedWindow,
    AlignedWindow,
    SlidingCounter,
    SubWindows,
    SlidingLog,
}

/// The identity of blocks.
const BLOCK: &str = "gcra.block";

impl Identity {
    /// Returns what a text identifies, `None` if no limit has it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text == BLOCK {
            let (text, span) = (text.to_owned(), Block::MAX_LENGTH);
            return Some(Self {
                text,
                limit: None,
                family: Family::Block,
                span,
                slot: None,
                horizon: Some(span),
            });
        }
        let (limit, rest) = match text.rsplit_once('/') {
            Some((limit, rest)) => (Some(limit.to_owned()), rest),
            None => (None, text),
        };
        // Names are printable, so that a foreign one does not write to the operator's terminal.
        if limit.as_ref().is_some_and(|name| !name.bytes().all(|byte| matches!(byte, b' '..=b'~')))
        {
            return None;
        }
        let (rest, horizon) = match rest.split_once('+') {
            Some((rest, horizon)) => (rest, Some(time(horizon)?)),
            None => (rest, None),
        };
        let (family, times) = rest.split_once('.')?;
        let family = Family::ALL.into_iter().find(|it| it.name() == family)?;
        let (span, slot) = match (family, times.split_once('.')) {
            (Family::SubWindows, Some((span, slot))) => (time(span)?, Some(time(slot)?)),
            (Family::SubWindows, None) | (_, Some(_)) => return None,
            (_, None) => (time(times)?, None),
        };
        Some(Self { text: text.to_owned(), limit, family, span, slot, horizon })
    }

    /// Returns the length of a slot, whose permits share an entry of a log: a microsecond unless it has sub-windows.
    pub(crate) fn slot(&self) -> Duration {
        self.slot.unwrap_or(Duration::from_micros(1))
    }

    /// Returns how far ahead permits may be reserved.
    pub(crate) fn horizon(&self) -> Duration {
        const SHORTEST_DEFAULT: Duration = Duration::from_secs(60);
        self.horizon.unwrap_or(self.span.max(SHORTEST_DEFAULT))
    }
}

impl Family {
    const ALL: [Self; 6] = [
        Self::Gcra,
        Self::FixedWindow,
        Self::AlignedWindow,
        Self::SlidingCounter,
        Self::SubWindows,
        Self::SlidingLog,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Gcra | Self::Block => "gcra",
            Self::FixedWindow => "fixed-window",
            Self::AlignedWindow => "aligned-window",
            Self::SlidingCounter => "sliding-counter",
            Self::SubWindows => "sub-windows",
            Self::SlidingLog => "sliding-log",
        }
    }

    /// Returns whether a state is a list beside the subject's hash, and not a field of it.
    pub(crate) const fn is_log(self) -> bool {
        matches!(self, Self::SubWindows | Self::SlidingLog)
    }
}

/// Returns a time such as `60s` or `333334ns`, `None` if it is longer than a quota's can be.
fn time(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|character: char| !character.is_ascii_digit())?);
    let number: u64 = number.parse().ok().filter(|number| *number > 0)?;
    let time = match unit {
        "s" => Duration::from_secs(number),
        "ms" => Duration::from_millis(number),
        "us" => Duration::from_micros(number),
        "ns" => Duration::from_nanos(number),
        _ => return None,
    };
    (time <= Quota::MAX_RECOVERY).then_some(time)
}

#[cfg(test)]
mod tests {
    use limiter_core::{Algorithm, Policy, Quota};
    use proptest::prelude::*;

    use super::*;

    fn names() -> impl Strategy<Value = String> {
        // Each printable character, and often those that separate the parts of an identity.
        "[ -~/.+:]{1,20}|gcra\\.60s|[a-z]+/[a-z]+"
    }

    proptest! {
        #[test]
        fn what_policies_make_is_parsed_back(
            policy in names(),
            limit in names(),
            by in prop::sample::select(Algorithm::one_of_each().collect::<Vec<_>>()),
            permits in 1_u64..2_000,
            millis in 1_u64..10_000_000,
            horizon in prop::option::of(1_u64..10_000_000),
        ) {
            let Ok(quota) = Quota::new(permits, Duration::from_millis(millis)) else { return Ok(()) };
            let of_limit = Policy::new(&limit, by, quota);
            let Ok(of_limit) = of_limit else { return Ok(()) };
            let of_limit = match horizon {
                Some(horizon) => of_limit.clone().with_horizon(Duration::from_millis(horizon)).unwrap_or(of_limit),
                None => of_limit,
            };
            // The only limit of a policy has no name.
            let other = Policy::gcra("another limit", Quota::per_day(1_000_000));
            let Ok(of_policy) = Policy::all_of(&policy, [of_limit, other]) else { return Ok(()) };
            let index = of_policy.limits().iter().position(|it| it.name() == limit).unwrap();
            let text = &of_policy.identities()[index];
            let found = Identity::parse(text);
            prop_assert!(found.is_some(), "{text}");
            let Some(found) = found else { return Ok(()) };
            prop_assert_eq!(&found.text, text);
            prop_assert_eq!(&found.limit, &(limit != policy).then_some(limit));
            prop_assert_eq!(found.family.name(), by.family());
            prop_assert_eq!(found.family.is_log(), found.slot.is_some() || by == Algorithm::SlidingLog);
            let window = Duration::from_millis(millis);
            match by {
                Algorithm::SubWindows(slots) => {
                    let counted = found.slot() * slots.number();
                    prop_assert!(counted >= window && counted <= window * 1_001 / 1_000);
                    prop_assert!(found.span == counted || found.span == counted + found.slot());
                }
                _ => prop_assert_eq!(found.span, window),
            }
            if let (Some(horizon), Some(found)) = (horizon, found.horizon)
                && !matches!(by, Algorithm::LeakyQueue { .. })
            {
                prop_assert_eq!(found, Duration::from_millis(horizon));
            }
        }
    }

    #[test]
    fn parts_of_an_identity_are_distinguished() {
        let found = Identity::parse("per/hour+a.b/sub-windows.70s.10s+300s").unwrap();
        assert_eq!(found.limit.as_deref(), Some("per/hour+a.b"));
        assert_eq!((found.family, found.span.as_secs()), (Family::SubWindows, 70));
        assert_eq!((found.slot().as_secs(), found.horizon().as_secs()), (10, 300));
        assert_eq!(Identity::parse("gcra.block").unwrap().family, Family::Block);
        let found = Identity::parse("gcra.200ms").unwrap();
        assert_eq!((found.limit.as_deref(), found.horizon().as_secs()), (None, 60));
    }

    #[test]
    fn other_texts_identify_nothing() {
        for text in [
            "",
            "gcra",
            "gcra.",
            "gcra.60",
            "gcra.0s",
            "gcra.s",
            "gcra.60h",
            "gcra.60s+",
            "gcra.60s.10s",
            "gcra.60s:leases",
            "sub-windows.70s",
            "sliding.60s",
            "fixed-window.2",
            "inflight",
            "gcra.60s/hour",
            "gcra.99999999999999999999s",
            "gcra.18446744073709551615s",
            "gcra.60s+158112001s",
            "\u{1b}/gcra.60s",
            "login/gcra.block",
        ] {
            assert_eq!(Identity::parse(text), None, "{text}");
        }
    }
}
