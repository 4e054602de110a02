//! Which limiters share states, and which share a store.

use core::sync::atomic::{AtomicUsize, Ordering};

/// The identity of a limiter: which states it has, and in which store they are.
///
/// All handles on a limiter's states have the same id, whatever their policies are. A
/// [sibling](crate::Limiter::sibling) has other states in the same store. [`decide`](crate::decide) uses both: two
/// demands on one key of one limiter are one demand, and demands of one store are decided together.
///
/// ```
/// use limiter_core::LimiterId;
///
/// let requests = LimiterId::new();
/// let tokens = requests.sibling();
/// assert_ne!(requests, tokens);
/// assert!(requests.shares_store_with(tokens) && !requests.shares_store_with(LimiterId::new()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LimiterId {
    store: usize,
    states: usize,
}

impl LimiterId {
    /// Returns the id of a limiter whose store no other limiter shares yet.
    #[expect(clippy::new_without_default, reason = "each one is different")]
    #[must_use]
    pub fn new() -> Self {
        let number = next();
        Self { store: number, states: number }
    }

    /// Returns the id of a limiter in memory by the machine's clock. All of them are decided together.
    pub(crate) fn by_the_system_clock() -> Self {
        Self { store: BY_THE_SYSTEM_CLOCK, states: next() }
    }

    /// Returns the id of a limiter with states of its own in the same store.
    #[must_use]
    pub fn sibling(self) -> Self {
        Self { states: next(), ..self }
    }

    /// Returns whether both limiters have their states in one store.
    #[must_use]
    pub const fn shares_store_with(self, other: Self) -> bool {
        self.store == other.store
    }
}

/// The number of no limiter.
const BY_THE_SYSTEM_CLOCK: usize = 0;

fn next() -> usize {
    static LIMITERS: AtomicUsize = AtomicUsize::new(BY_THE_SYSTEM_CLOCK + 1);
    LIMITERS.fetch_add(1, Ordering::Relaxed)
}
