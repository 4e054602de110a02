//! The states of blocks, which are beside those of a limiter: where they are, and what they mean.

use crate::{
    state::{State, Used},
    subject::StoredKey,
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
