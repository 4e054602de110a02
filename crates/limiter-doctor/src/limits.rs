//! The limits of a service, from the file that it loads them from.

use std::{collections::BTreeSet, path::Path};

use limiter_core::{Limit, Policies, Policy};
use toml::Table;

use crate::{Failure, identity::Identity};

/// The policies of a file, and their tiers.
#[derive(Debug, Default)]
pub(crate) struct Limits(Option<Policies>);

/// A limit that counts a state, and the tier that it belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted<'a> {
    pub(crate) limit: &'a Limit,
    /// `None` if the limit is the policy's own.
    pub(crate) tier: Option<&'a str>,
}

impl Limits {
    /// Reads a TOML file of policies, or one that has them in its table `limits`.
    pub(crate) fn read(file: &Path) -> Result<Self, Failure> {
        let fail = |error: String| {
            Failure::Usage(format!("can't read limits in {}: {error}", file.display()))
        };
        let text = std::fs::read_to_string(file).map_err(|error| fail(error.to_string()))?;
        Self::parse(&text).map_err(fail)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let whole = toml::from_str::<Policies>(text);
        let limits = match &whole {
            Ok(_) => None,
            Err(_) => {
                toml::from_str::<Table>(text).ok().and_then(|mut table| table.remove("limits"))
            }
        };
        let policies = match limits {
            Some(limits) => limits.try_into(),
            None => whole,
        };
        policies.map(|policies| Self(Some(policies))).map_err(|error| error.to_string())
    }

    /// Returns whether a file was given.
    pub(crate) const fn are_given(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the identities of a policy's limits and those of its tiers, `None` if the policy is not in the file.
    pub(crate) fn identities(&self, policy: &str) -> Option<BTreeSet<&str>> {
        let (policies, policy) = self.0.as_ref().and_then(|it| Some((it, it.get(policy)?)))?;
        let all = [policy].into_iter().chain(policies.tiers(policy.name()));
        Some(all.flat_map(Policy::identities).map(String::as_str).collect())
    }

    /// Returns the limits that count a state: the policy's own first, then those of its tiers. Limits with one identity
    /// share a state.
    pub(crate) fn of<'a>(&'a self, policy: &str, identity: &Identity) -> Vec<Counted<'a>> {
        let Some((policies, policy)) = self.0.as_ref().and_then(|it| Some((it, it.get(policy)?)))
        else {
            return Vec::new();
        };
        let found = |of: &'a Policy, tier| {
            let limits = of.limits().iter().zip(of.identities());
            let limits = limits.filter(|(_, text)| **text == identity.text);
            limits.map(move |(limit, _)| Counted { limit, tier }).collect::<Vec<_>>()
        };
        let tiers = policies.tiers(policy.name()).flat_map(|tier| found(tier, Some(tier.name())));
        found(policy, None).into_iter().chain(tiers).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICIES: &str = "
        search = '10/min'
        [api]
        limit = '5/min by sliding-log'
        tiers = { basic = '10/min', premium = '50/min by sliding-log', other = '5/h' }
        [mail.limits]
        hour = '100/h by fixed-window'
        day = '500/d by fixed-window'
    ";

    fn counted<'a>(
        limits: &'a Limits,
        policy: &str,
        identity: &str,
    ) -> Vec<(Option<&'a str>, u64)> {
        let identity = Identity::parse(identity).unwrap();
        let found = limits.of(policy, &identity).into_iter();
        found.map(|it| (it.tier, it.limit.quota().permits())).collect()
    }

    #[test]
    fn limits_and_tiers_are_found_by_their_states() {
        // As in a file that has nothing else, and in a service's settings.
        let settings = POLICIES.replace("[", "[limits.").replace("search", "limits.search");
        for file in [POLICIES.to_owned(), format!("x = 1\n{settings}")] {
            let limits = Limits::parse(&file).unwrap();
            assert_eq!(counted(&limits, "search", "gcra.60s"), [(None, 10)]);
            let own = [(None, 5), (Some("basic"), 10), (Some("premium"), 50)];
            assert_eq!(counted(&limits, "api", "sliding-log.60s"), own);
            assert_eq!(counted(&limits, "api", "sliding-log.3600s"), [(Some("other"), 5)]);
            assert_eq!(counted(&limits, "mail", "hour/fixed-window.3600s"), [(None, 100)]);
            for (policy, identity) in [
                ("mail", "fixed-window.3600s"),
                ("mail", "day/fixed-window.3600s"),
                ("x", "gcra.60s"),
            ] {
                assert_eq!(counted(&limits, policy, identity), []);
            }
        }
        assert_eq!(counted(&Limits::default(), "search", "gcra.60s"), []);
    }

    #[test]
    fn an_invalid_file_is_an_error_that_says_what_is_expected() {
        for (file, message) in [
            ("api = '0/min'", "0/min"),
            ("[limits]\napi = '0/min'", "0/min"),
            ("[redis]\nurl = 'x'", "redis"),
            ("api", "line 1"),
        ] {
            let error = Limits::parse(file).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
    }
}
