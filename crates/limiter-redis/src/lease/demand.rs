//! Which keys are worth a lease, and of how many permits.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use limiter_core::{Cost, Timestamp};

/// The checks that a key needs within the length of a lease before permits are leased. A batch does as well for fewer.
pub(super) const BUSY: u64 = 8;

/// For how long a key's checks go to the store one by one after a round trip that was too long, or failed.
const ONE_BY_ONE: Duration = Duration::from_secs(1);

/// The least that is requested if the pace spends so much in half of a lease. Less is hardly worth a call.
const LEAST: u64 = 16;

/// A request for permits.
#[derive(Clone, Copy)]
pub(super) struct Ask {
    /// What is charged at least.
    pub(super) cost: Cost,
    pub(super) wanted: u64,
    pub(super) at: Timestamp,
}

/// How often keys without a lease were checked. A fixed number of places has one key each, and forgets it
/// for another one. So a flood of fresh keys may delay that a key is leased, and takes no memory.
pub(super) struct Recent(Box<[AtomicU64]>);

/// What a place knows of its key: a part of the key's hash, how many checks there were, and since which millisecond.
#[derive(Clone, Copy)]
struct Checks {
    tag: u64,
    count: u64,
    since: u32,
}

impl Recent {
    /// Returns places for a table of so many leased keys.
    pub(super) fn new(keys: usize) -> Self {
        let places = (keys / 4).max(4_096).next_power_of_two();
        Self((0..places).map(|_| AtomicU64::default()).collect())
    }

    /// Counts a check. Returns for how long the key is busy if it is, and forgets it. Threads that count at a time may
    /// lose a check.
    pub(super) fn is_busy(&self, hash: u64, now: Timestamp, length: Duration) -> Option<Duration> {
        let index = usize::try_from(hash).unwrap_or(0) & (self.0.len() - 1);
        let place = self.0.get(index)?;
        let known = Checks::unpack(place.load(Relaxed));
        let now = Checks { tag: hash >> TAG, count: 1, since: millis(now) };
        let for_millis = now.since.wrapping_sub(known.since);
        let busy_for = Duration::from_millis(for_millis.into());
        let next = match known.tag == now.tag && known.count > 0 && busy_for <= length {
            true if known.count + 1 < BUSY => Checks { count: known.count + 1, ..known },
            true => {
                place.store(0, Relaxed);
                return Some(busy_for);
            }
            false => now,
        };
        place.store(next.pack(), Relaxed);
        None
    }
}

/// By how many bits a hash is longer than its tag.
const TAG: u32 = 36;

impl Checks {
    const fn pack(self) -> u64 {
        self.tag << TAG | self.count << 32 | self.since as u64
    }

    #[expect(clippy::cast_possible_truncation, reason = "the milliseconds are the last 32 bits")]
    const fn unpack(packed: u64) -> Self {
        Self { tag: packed >> TAG, count: (packed >> 32) & 0xf, since: packed as u32 }
    }
}

/// Returns the last 32 bits of the milliseconds of a clock.
#[expect(clippy::cast_possible_truncation, reason = "differences of these are right for 49 days")]
const fn millis(time: Timestamp) -> u32 {
    (time.as_nanos() / 1_000_000) as u32
}

/// How fast a key's permits are spent, and how fast the store replies.
pub(super) struct Demand {
    length: Duration,
    /// The longest round trip that is worth waiting for with others.
    longest_trip: Duration,
    /// How many permits the last reply granted, since when they are spent, and how many were refused since then.
    size: u64,
    since: Timestamp,
    refused: u64,
    asked: Timestamp,
    /// How long the last round trip took, if that is not too long. If it is not known, a request is for the cost of one
    /// caller, and others don't wait for it.
    trip: Option<Duration>,
    one_by_one_until: Timestamp,
}

impl Demand {
    /// Returns the demand of a key that was checked [`BUSY`] times in a while that ends now.
    ///
    /// A round trip may take a quarter of the `length` of a lease, or too little of it would be left; and a quarter
    /// of the deadline, because a caller waits for two if a request was sent just before it came.
    pub(super) fn new(
        (length, deadline): (Duration, Duration),
        busy_for: Duration,
        now: Timestamp,
    ) -> Self {
        let longest_trip = length.min(deadline) / 4;
        let busy_for = u64::try_from(busy_for.as_nanos()).unwrap_or(u64::MAX);
        let since = Timestamp::from_nanos(now.as_nanos().saturating_sub(busy_for));
        Self {
            length,
            longest_trip,
            size: BUSY,
            since,
            refused: 0,
            asked: now,
            trip: None,
            one_by_one_until: now,
        }
    }

    /// Returns whether a check goes to the store itself, and does not wait for a lease.
    pub(super) fn goes_one_by_one(&self, is_asking: bool, now: Timestamp) -> bool {
        self.trip.is_none() && (is_asking || now < self.one_by_one_until)
    }

    /// Begins anew with a key that is busy again.
    pub(super) fn is_busy_again(&mut self, busy_for: Duration, now: Timestamp) {
        *self = Self::new((self.length, 4 * self.longest_trip), busy_for, now);
    }

    /// Returns whether the store was not asked for longer than a lease lasts.
    pub(super) fn is_old(&self, now: Timestamp) -> bool {
        now.saturating_since(self.asked) > self.length
    }

    /// Returns how many permits to ask for while so many are `left`: those that the present pace needs in a 16th of a
    /// lease, or an eighth after refusals, or in four round trips; or [`LEAST`], but not more than in half of a lease, and
    /// at most twice the number before.
    ///
    /// What a process holds when a burst ends is lost to others, so it does not hold more.
    pub(super) fn asks(&mut self, left: u64, now: Timestamp) -> u64 {
        self.asked = now;
        let Some(trip) = self.trip else { return 0 };
        let needed = u128::from(self.size.saturating_sub(left)) + u128::from(self.refused);
        let time = now.saturating_since(self.since).max(Duration::from_micros(100));
        let in_time = |ahead: Duration| {
            u64::try_from(needed * ahead.as_nanos() / time.as_nanos()).unwrap_or(u64::MAX)
        };
        let longest = in_time(self.length / 2);
        // Where the limit is used up, a lease may begin later, so that the next reply comes later, too.
        let time = self.length / if self.refused > 0 { 8 } else { 16 };
        let ahead = in_time(time.max(4 * trip));
        ahead.max(LEAST).min(longest).min(self.size.saturating_mul(2))
    }

    /// Notes that so many permits are spent from now on.
    pub(super) const fn begins(&mut self, size: u64, now: Timestamp) {
        (self.size, self.since, self.refused) = (size, now, 0);
    }

    /// Notes that a cost was refused.
    pub(super) const fn refuses(&mut self, cost: Cost) {
        self.refused = self.refused.saturating_add(cost.get());
    }

    /// Notes that permits of a lease were left, and no other one follows.
    pub(super) fn shrinks(&mut self) {
        self.size = (self.size / 2).max(1);
    }

    /// Notes how long a round trip took.
    pub(super) fn replied(&mut self, trip: Duration, now: Timestamp) {
        self.trip = (trip <= self.longest_trip).then_some(trip);
        if self.trip.is_none() {
            self.failed(now);
        }
    }

    /// Notes that a request failed, or took too long.
    pub(super) fn failed(&mut self, now: Timestamp) {
        (self.trip, self.one_by_one_until) = (None, now.saturating_add(ONE_BY_ONE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_millis(160);

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_nanos(1_000_000 * millis)
    }

    #[test]
    fn a_key_is_busy_once_it_is_checked_eight_times_within_a_lease() {
        let recent = Recent::new(8);
        // The first of them is too old.
        let times = [0, 20, 40, 60, 80, 100, 120, 170, 171];
        let busy: Vec<_> = times.map(|time| recent.is_busy(7, at(time), LENGTH)).into();
        assert_eq!(busy, [None; 9]);
        let busy: Vec<_> = (172..178).map(|time| recent.is_busy(7, at(time), LENGTH)).collect();
        assert_eq!(busy[..5], [None; 5]);
        assert_eq!(busy[5], Some(Duration::from_millis(7)));
        assert_eq!(recent.is_busy(7, at(179), LENGTH), None, "it is forgotten");
    }

    #[test]
    fn keys_that_share_a_place_are_told_apart() {
        let recent = Recent::new(8);
        let (one, other) = (1 << TAG, 2 << TAG);
        for _ in 0..20 {
            assert_eq!(recent.is_busy(one, at(0), LENGTH), None);
            assert_eq!(recent.is_busy(other, at(0), LENGTH), None);
        }
    }

    #[test]
    fn checks_are_counted_past_the_end_of_the_milliseconds() {
        let recent = Recent::new(8);
        let last = u64::from(u32::MAX);
        for time in last - 3..last + 4 {
            assert_eq!(recent.is_busy(7, at(time), LENGTH), None);
        }
        let busy = recent.is_busy(7, at(last + 4), LENGTH);
        assert_eq!(busy, Some(Duration::from_millis(7)));
    }

    /// Returns the demand of a key that was checked once in a millisecond, and for which a lease was requested.
    fn demand(trip: u64) -> Demand {
        let deadline = Duration::from_secs(1);
        let mut demand = Demand::new((LENGTH, deadline), Duration::from_millis(8), at(8));
        assert_eq!(demand.asks(0, at(8)), 0, "it has to be found out how long a round trip takes");
        demand.replied(Duration::from_millis(trip), at(8 + trip));
        demand
    }

    #[test]
    fn the_pace_is_asked_for_and_at_most_twice_as_much_as_before() {
        assert_eq!(demand(1).asks(0, at(9)), LEAST);
        let mut busy = demand(1);
        busy.begins(1_000, at(10));
        // 50 permits a millisecond for a 16th of a lease.
        assert_eq!(busy.asks(0, at(30)), 500);
        // Four round trips are longer than that.
        let mut far = demand(10);
        far.begins(1_000, at(20));
        assert_eq!(far.asks(0, at(40)), 2_000);
        far.begins(100, at(40));
        assert_eq!(far.asks(0, at(41)), 200);
        let mut quiet = demand(1);
        quiet.begins(2, at(10));
        assert_eq!(quiet.asks(0, at(30)), 4);
        quiet.begins(2, at(30));
        assert_eq!(quiet.asks(0, at(110)), 2, "not more than in half of a lease");
    }

    #[test]
    fn checks_go_one_by_one_until_a_round_trip_is_short() {
        let mut near = demand(40);
        assert!(!near.goes_one_by_one(true, at(50)));
        near.failed(at(60));
        assert!(near.goes_one_by_one(false, at(1_059)));
        assert!(!near.goes_one_by_one(false, at(1_060)), "one asks");
        assert!(near.goes_one_by_one(true, at(1_060)), "the others don't wait for it");
        let far = demand(41);
        assert!(far.goes_one_by_one(false, at(1_000)));
        let deadline = Duration::from_millis(40);
        let mut short = Demand::new((LENGTH, deadline), Duration::ZERO, at(0));
        short.replied(Duration::from_millis(11), at(11));
        assert!(
            short.goes_one_by_one(false, at(12)),
            "two trips and more have to be within a deadline"
        );
    }
}
