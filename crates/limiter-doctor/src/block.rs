//! The states of blocks, which are beside those of a limiter: where they are, and what they mean.

use crate::{
    identity::Family,
    state::{State, Used},
    subject::{Content, StoredKey},
    words::time,
};

/// A state of a subject's block. Each is a limiter of its own, which has the name of the policy and an ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BlockState {
    Strikes,
    Levels,
    Block,
}

impl BlockState {
    pub(crate) const ALL: [Self; 3] = [Self::Strikes, Self::Levels, Self::Block];

    /// Returns which state of a block has this key, as far as the policy's name shows it.
    pub(crate) fn of(key: &StoredKey) -> Option<Self> {
        let is_its = |state: &Self| {
            key.policy.strip_suffix(state.ending()).is_some_and(|policy| !policy.is_empty())
        };
        Self::ALL.into_iter().find(is_its)
    }

    /// Returns which state of a limiter's block has a key, from what follows that limiter's hash in it, and its content.
    pub(crate) fn of_suffix(suffix: &[u8], content: &Content) -> Option<Self> {
        let is_its = |state: &Self| match (suffix.strip_prefix(state.ending().as_bytes()), content)
        {
            (Some([b':', ..]), Content::Log(identity)) => {
                *state == Self::Strikes
                    && identity.family == Family::SlidingLog
                    && identity.limit.is_none()
            }
            (Some([]), Content::Hash) => *state != Self::Strikes,
            _ => false,
        };
        Self::ALL.into_iter().find(is_its)
    }

    /// Returns the Lua pattern of each field in a hash of the state.
    pub(crate) const fn field_pattern(self) -> &'static str {
        match self {
            Self::Strikes => "",
            Self::Levels => "^gcra%.%d+[mun]?s$",
            Self::Block => "^gcra%.block$",
        }
    }

    /// Returns what the state means for the subject, `None` if its own words say it.
    pub(crate) fn words(self, state: &State) -> Option<String> {
        match (self, state.used) {
            (Self::Levels, Used::Part { .. }) => {
                Some(format!("earlier blocks are forgotten in {}", time(state.free_in)))
            }
            (Self::Strikes, Used::Permits(1)) => Some("1 strike".to_owned()),
            (Self::Strikes, Used::Permits(strikes)) => Some(format!("{strikes} strikes")),
            _ => None,
        }
    }

    pub(crate) const fn ending(self) -> &'static str {
        match self {
            Self::Strikes => "-strikes",
            Self::Levels => "-levels",
            Self::Block => "-block",
        }
    }
}
