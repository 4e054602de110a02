//! The keys of blocks, which are beside those of a limiter: where they are, and what they mean.

use crate::{
    state::State,
    stored::Family,
    subject::{StoredKey, suffix},
    words::time,
};

/// A state of a subject's block. Each is a limiter of its own, which has the name of the policy and an ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockState {
    Strikes,
    Levels,
    Block,
}

impl BlockState {
    /// In the order in which they are reset: the block is lifted last.
    const ALL: [Self; 3] = [Self::Strikes, Self::Levels, Self::Block];

    /// Returns which state of a block has this key, as far as the name shows it.
    pub(crate) fn of(key: &StoredKey) -> Option<Self> {
        let is_its = |state: &Self| {
            key.policy.strip_suffix(state.ending()).is_some_and(|policy| !policy.is_empty())
                && key.limit.is_none()
                && key.family() == Ok(state.family())
        };
        Self::ALL.into_iter().find(is_its)
    }

    /// Returns the keys that the block of a subject has, if there is one. `begin` is what the subject's keys have up to
    /// the end of the policy's name.
    pub(crate) fn keys(begin: &[u8]) -> [Vec<u8>; 3] {
        Self::ALL.map(|state| {
            let end = suffix(None, state.family().stored());
            [begin, state.ending().as_bytes(), end.as_bytes()].concat()
        })
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Strikes => "strikes",
            Self::Levels => "levels",
            Self::Block => "block",
        }
    }

    /// Returns what the state means for the subject.
    pub(crate) fn words(self, state: &State, permits: Option<u64>) -> String {
        let State { used, fresh_in, .. } = state;
        match self {
            Self::Block if fresh_in.is_zero() => "no longer blocked".to_owned(),
            Self::Block => format!("blocked for {} more", time(*fresh_in)),
            Self::Levels if *used == 1 => "1 block is not forgotten".to_owned(),
            Self::Levels => format!("{used} blocks are not forgotten"),
            // A log has the most permits of its quotas.
            Self::Strikes => match permits.or_else(|| state.number("largest")) {
                Some(most) => format!("{used} of {most} strikes"),
                None => format!("{used} strikes"),
            },
        }
    }

    const fn ending(self) -> &'static str {
        match self {
            Self::Strikes => "-strikes",
            Self::Levels => "-levels",
            Self::Block => "-block",
        }
    }

    const fn family(self) -> Family {
        match self {
            Self::Strikes => Family::SlidingLog,
            Self::Levels | Self::Block => Family::Gcra,
        }
    }
}

/// Returns a key up to the end of its policy's name.
pub(crate) fn begin_of(key: &[u8]) -> Option<&[u8]> {
    let names = key.windows(2).position(|bytes| bytes == b"}:")? + 2;
    let length = key.get(names..)?.iter().position(|byte| matches!(byte, b':' | b'/'))?;
    key.get(..names + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(key: &str) -> Option<BlockState> {
        BlockState::of(&StoredKey::parse(key.as_bytes()).unwrap())
    }

    #[test]
    fn the_keys_of_a_block_are_read_back() {
        for key in ["limiter:{salice}:a%3Ab:gcra", "limiter:{salice}:a%3Ab/hourly:fixed-window.2"] {
            let begin = begin_of(key.as_bytes()).unwrap();
            assert_eq!(begin, b"limiter:{salice}:a%3Ab");
            let keys = BlockState::keys(begin).map(|key| String::from_utf8(key).unwrap());
            let names = [
                "limiter:{salice}:a%3Ab-strikes:sliding-log.3",
                "limiter:{salice}:a%3Ab-levels:gcra",
                "limiter:{salice}:a%3Ab-block:gcra",
            ];
            assert_eq!(keys, names);
            assert_eq!(keys.map(|key| of(&key)), BlockState::ALL.map(Some));
        }
    }

    #[test]
    fn other_keys_are_of_no_block() {
        for key in [
            "limiter:{salice}:api:gcra",
            "limiter:{salice}:-block:gcra",
            "limiter:{salice}:api-block:fixed-window.2",
            "limiter:{salice}:api-block/hourly:gcra",
            "limiter:{salice}:api-strikes:gcra",
        ] {
            assert_eq!(of(key), None, "{key}");
        }
    }
}
