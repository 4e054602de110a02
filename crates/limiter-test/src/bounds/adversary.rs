//! A search for the traffic that is admitted as often as possible within a window.
//!
//! It knows where an algorithm may be weak: at the edges of windows and slots, after idle gaps, and
//! where permits are given back. It begins with the moves that are known to be the best against some
//! algorithm. Then it climbs: it changes the best moves so far at random, and keeps a change that
//! gets no less.

use std::time::Duration;

use limiter_core::{Algorithm, Cost, Limit, Policy};

use super::{
    measure::most_in_a_window,
    moves::{
        Move::{self, At, GiveBack, Reserve, Take, TakeAll, TakeNext},
        play,
    },
};
use crate::{
    laws::single,
    subject::{Bare, InMemory, Subject},
};

/// What an adversary found.
#[derive(Clone, Debug)]
pub struct Attack {
    /// The most permits that it got within a window.
    pub most: u128,
    /// How it got them.
    pub moves: Vec<Move>,
}

/// How hard an adversary tries.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// How many changes it tries at random.
    pub climbs: u32,
    /// Where the random changes start from.
    pub seed: u64,
    /// What it may do beside asking for permits.
    pub means: Means,
}

/// What an adversary may do beside asking for permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// Reserve permits for later.
    Reserve,
    /// Reserve permits for later, and give permits back.
    Refund,
    /// Set the clock back.
    StepBack,
}

/// Returns the best attack on `policy`, its algorithms alone and in a
/// [`MemoryLimiter`](limiter_core::MemoryLimiter), to be admitted by `limit` within `window`.
///
/// # Panics
///
/// If the policy can't be applied.
#[must_use]
pub fn attack(policy: &Policy, limit: &Limit, window: Duration, effort: Effort) -> Attack {
    let alone = search(|| Bare::new(single(limit)), limit, window, effort);
    let in_memory = search(|| InMemory::with_room_for(1, policy.clone()), limit, window, effort);
    if in_memory.most > alone.most { in_memory } else { alone }
}

fn search<T: Subject>(
    make: impl Fn() -> T,
    limit: &Limit,
    window: Duration,
    effort: Effort,
) -> Attack {
    let edges = Edges::of(limit, effort.means);
    let rate = |moves: Vec<Move>| Attack {
        most: most_in_a_window(&play(make(), &moves, effort.means == Means::StepBack), window),
        moves,
    };
    let openings = edges.openings().into_iter().map(rate);
    let mut best = openings.max_by_key(|attack| attack.most).expect("there are openings");

    let mut dice = Dice(effort.seed);
    // Half of the climbs start from nothing: the best opening may be a hill of its own.
    let mut climber = rate(Vec::new());
    for climb in 0..effort.climbs {
        if climb == effort.climbs / 2 {
            climber = best.clone();
        }
        let mut moves = climber.moves.clone();
        for _ in 0..=dice.below(3) {
            edges.change(&mut moves, &mut dice);
        }
        let changed = rate(moves);
        if changed.most >= climber.most {
            climber = changed;
        }
        if climber.most > best.most {
            best = climber.clone();
        }
    }
    best
}

/// The times at which something changes.
struct Edges {
    window: u64,
    slot: u64,
    slots: u64,
    interval: u64,
    permits: u64,
    means: Means,
}

impl Edges {
    fn of(limit: &Limit, means: Means) -> Self {
        let window = nanos(limit.quota().window());
        let permits = limit.quota().permits();
        let slots = match limit.algorithm() {
            Algorithm::SubWindows(slots) => u64::from(slots.number()),
            _ => 1,
        };
        // As long as the algorithm's own.
        let slot = (window / 1_000).div_ceil(slots) * 1_000;
        Self { window, slot, slots, interval: window.div_ceil(permits), permits, means }
    }

    /// Returns moves that are the best against some algorithm.
    fn openings(&self) -> Vec<Vec<Move>> {
        let &Self { window, slot, slots, interval, .. } = self;
        let mut openings = Vec::new();
        let anchors = [0, 1, slot - 1, slot, window / 2, window - 1, window, 10 * window + 7];
        for from in anchors {
            // All at once, and then each permit as soon as it is there.
            let steps = usize::try_from(self.permits.min(2_000)).unwrap_or(0) + 2;
            openings.push([vec![At(from), TakeAll], vec![TakeNext; steps]].concat());
            openings.push([vec![At(from)], vec![Reserve; 2 * steps]].concat());
            openings.push([vec![At(from), TakeAll], vec![Reserve; 2 * steps]].concat());
            // All at each interval.
            let at_steps =
                (0..=steps as u64).flat_map(|step| [At(from + step * interval), TakeAll]);
            openings.push(at_steps.collect());
            // A first permit starts a window; at its end it is given back and all are taken.
            for second in [window, 2 * window - 2, 2 * window - 1, 2 * window] {
                openings.push(vec![
                    At(from),
                    Take(Cost::ONE),
                    At(from + window - 1),
                    TakeAll,
                    GiveBack,
                    TakeAll,
                    At(from + second),
                    TakeAll,
                ]);
            }
            // All before the edge of a window and after it, with and without idle gaps.
            for edge in [window, 2 * window, 12 * window] {
                openings.push(vec![
                    At(from),
                    TakeAll,
                    At(from + edge - 1),
                    TakeAll,
                    At(from + edge),
                    TakeAll,
                ]);
            }
        }
        // All at each edge of a slot, from each slot on.
        for first in 0..slots.min(50) {
            let edges = first + 1..first + 2 * slots.min(100) + 2;
            let moves =
                edges.flat_map(|edge| [At(edge * slot - 1), TakeAll, At(edge * slot), TakeAll]);
            openings.push(moves.collect());
            openings.push(vec![
                At((first + 1) * slot - 1),
                TakeAll,
                At((first + slots) * slot),
                TakeAll,
            ]);
        }
        if self.means != Means::Refund {
            openings.iter_mut().for_each(|moves| moves.retain(|made| *made != GiveBack));
        }
        openings
    }

    /// Changes one thing at random.
    fn change(&self, moves: &mut Vec<Move>, dice: &mut Dice) {
        const MAX_MOVES: usize = 24;
        let place = dice.below(moves.len() as u64 + 1);
        let place = usize::try_from(place).unwrap_or(0);
        match dice.below(4) {
            0 if place < moves.len() => drop(moves.remove(place)),
            1 if place < moves.len() => {
                if let Some(changed) = moves.get_mut(place) {
                    *changed = self.any(dice);
                }
            }
            _ if moves.len() < MAX_MOVES => moves.insert(place, self.any(dice)),
            _ => {}
        }
    }

    fn any(&self, dice: &mut Dice) -> Move {
        match dice.below(10) {
            0..4 => At(self.moment(dice)),
            4 => Take(Cost::new(1 + dice.below(self.permits)).expect("at least 1")),
            5..7 => TakeAll,
            7 if self.means != Means::StepBack => Reserve,
            8 if self.means == Means::Refund => GiveBack,
            _ => TakeNext,
        }
    }

    /// Returns a moment at an edge, or beside one.
    fn moment(&self, dice: &mut Dice) -> u64 {
        let edge = match dice.below(3) {
            0 => dice.below(5) * self.window,
            1 => dice.below(4 * self.slots) * self.slot,
            _ => dice.below(4 * self.permits) * self.interval,
        };
        let beside = [0, 0, 1, 1, 2, 64, 1_000, self.slot, self.interval];
        let beside = beside.get(usize::try_from(dice.below(9)).unwrap_or(0)).copied().unwrap_or(0);
        if dice.below(2) == 0 { edge + beside } else { edge.saturating_sub(beside) }
    }
}

/// Pseudo-random numbers, the same for the same seed: Steele's and Vigna's SplitMix64.
struct Dice(u64);

impl Dice {
    /// Returns a number below `end`, which is not zero.
    const fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % end
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("a window is within 366 days")
}
