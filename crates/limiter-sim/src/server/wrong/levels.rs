//! Servers that are wrong on purpose about the levels of blocks.

use std::collections::BTreeMap;

use limiter_double::{Reply, Server as Redis};

use crate::{service_plan::LEVELS, wrong::Wrong};

/// When levels were raised for the first time, for a server that keeps them.
#[derive(Debug, Default)]
pub(super) struct Levels(BTreeMap<Vec<u8>, i64>);

impl Levels {
    /// Executes a call. Those on levels are executed as if the levels had been forgotten, or at the time of the first one.
    pub(super) fn run(
        &mut self,
        wrong: Wrong,
        redis: &mut Redis,
        words: &[Vec<u8>],
        mut now: i64,
    ) -> Reply {
        let keys = super::super::keys(words);
        let is_of_levels = |key: &Vec<u8>| key.ends_with(LEVELS.as_bytes());
        for key in keys.iter().filter(|key| is_of_levels(key)) {
            if wrong == Wrong::ForgetsLevels {
                redis.execute(&[b"DEL".as_slice(), key], now);
            } else if keys.iter().all(is_of_levels) {
                now = *self.0.entry(key.clone()).or_insert(now);
            }
        }
        redis.execute(words, now)
    }
}
