//! What the twins of all algorithms have in common.

/// The functions of an algorithm for one limit, and the state that was read last: those of
/// a family in `several.lua`. Times are microseconds of Unix time, marks count from `now`.
pub(super) trait Twin {
    /// Takes up a state as it was found `now`. Returns whether it was possible.
    fn read(&mut self, text: Option<&str>, now: i128) -> bool;

    /// Returns whether nothing is promised for later, because another quota's debt has to drain.
    fn is_foreign(&self) -> bool {
        false
    }

    /// Returns when a cost fits, from a moment on, `None` for never.
    fn fits(&self, cost: i128, from: i128) -> Option<i128>;

    /// Takes a cost at a moment at which it fits, and returns the mark.
    fn charge(&mut self, cost: i128, at: i128) -> i128;

    /// Returns how many permits came back, and whether all of the charge did.
    fn refund(&mut self, charge: &Charge, mark: i128) -> (i128, bool);

    /// Returns the time until the limit is fresh, and the permits that remain.
    fn usage(&self) -> [i128; 2];

    /// Returns the state as text, and for how long it matters.
    fn text(&self) -> (String, i128);
}

/// What is given back of a charge: so many permits of its cost, when it was made, for when, and for how long leases
/// may be in its debt.
pub(super) struct Charge {
    pub(super) permits: i128,
    pub(super) cost: i128,
    pub(super) taken_at: i128,
    pub(super) at: i128,
    pub(super) leases: i128,
}

/// Returns a / b rounded up.
pub(super) const fn up(a: i128, b: i128) -> i128 {
    -(-a).div_euclid(b)
}

/// Returns the number that digits are, the largest if they are too many; `None` if they are none.
pub(super) fn digits(word: &str) -> Option<i128> {
    let are_digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    are_digits.then(|| word.parse().unwrap_or(i128::from(u64::MAX)))
}
