//! The salts of the policies that a limiter has had.

use std::sync::{PoisonError, RwLock};

/// How many are known. With more, a key is reset under the first ones and under the policy of the handle.
const MOST: usize = 1_000;

/// The salts of the policies of a limiter's handles, under all of which a key is reset.
#[derive(Default)]
pub(crate) struct Salts(RwLock<Vec<u64>>);

impl Salts {
    pub(crate) fn add(&self, salt: u64) {
        let is_known = |salts: &[u64]| salts.len() >= MOST || salts.contains(&salt);
        if is_known(&self.0.read().unwrap_or_else(PoisonError::into_inner)) {
            return;
        }
        let mut salts = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if !is_known(&salts) {
            salts.push(salt);
        }
    }

    /// Runs `operate` once for each and for these. No lock is held meanwhile.
    pub(crate) fn for_each_and(&self, others: impl Iterator<Item = u64>, operate: impl FnMut(u64)) {
        let read = || self.0.read().unwrap_or_else(PoisonError::into_inner);
        let known = (0..).map_while(|index| read().get(index).copied());
        known.chain(others.filter(|salt| !read().contains(salt))).for_each(operate);
    }
}
