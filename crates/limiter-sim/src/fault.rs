//! The faults of a run, and how often each of them happens.

use std::{collections::BTreeMap, fmt};

use crate::{random::Random, vocabulary::Micros};

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// A request is lost.
    RequestLost,
    /// A reply is lost.
    ReplyLost,
    /// A request or a reply takes up to three deadlines.
    Delayed,
    /// A request or a reply takes longer than a lease.
    Held,
    /// A caller leaves before it has its answer.
    CallerLeaves,
    /// A receipt is kept for long before it is refunded.
    LateRefund,
    /// No task of a process runs for a time. Its clock goes on.
    Stopped,
    /// No task of a process runs for a time, and its clock stands still.
    Suspended,
    /// A process is killed, and a new one is started in its place.
    Killed,
    /// Calls of a process that are under way fail, and it has no connection for a time.
    Cut,
    /// Nothing passes between a process and the server for a time.
    Partitioned,
    /// Each call takes longer for a time.
    Slow,
    /// The server refuses commands for a time: all, those that write, or those that need memory.
    ErrorReplies,
    /// The server loses its scripts.
    ScriptsFlushed,
    /// The server loses its keys and scripts, and the connections, and loads for a time.
    Restarted,
    /// A replica that lacks the last writes takes the server's place, and is read-only for a time.
    FailedOver,
    /// The replica, with its writes of its own, answers a process for a time.
    Stale,
    /// A process checks many fresh keys, which displace others in its tables.
    Flooded,
    /// The server's clock steps forward or back.
    Stepped,
    /// The server's clock runs faster or slower.
    Slewed,
    /// An operation asks by another policy than those before: as of another plan of a customer.
    TierChanged,
    /// All processes change to another policy, each at a moment of its own.
    QuotaReloaded,
    /// A process is started anew with other settings, or shares its keys with another number of processes.
    SettingsChanged,
}

/// What a fault means for worlds that may be without it, and for checks that excuse something by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It excuses nothing, and happens in all worlds.
    Nothing,
    /// It excuses nothing, and only callers of limiters use what it concerns, not those of requests in flight.
    OfLimiters,
    /// An admission may appear long after it was charged.
    Delays,
    /// It starts incarnations of keys, which have a bound each.
    StartsIncarnations,
    /// A process may spend what it held before.
    Suspends,
    /// Quotas take turns on a key. Their common bound is higher, and requests in flight have none.
    TakesTurns,
}

impl Fault {
    /// Returns what it means for worlds and checks.
    const fn effect(self) -> Effect {
        match self {
            Self::RequestLost
            | Self::ReplyLost
            | Self::CallerLeaves
            | Self::Stopped
            | Self::Killed
            | Self::Cut
            | Self::Partitioned
            | Self::ErrorReplies
            | Self::ScriptsFlushed
            | Self::Slewed
            | Self::SettingsChanged => Effect::Nothing,
            Self::LateRefund | Self::Flooded => Effect::OfLimiters,
            Self::Delayed | Self::Held | Self::Slow => Effect::Delays,
            Self::Restarted | Self::FailedOver | Self::Stale | Self::Stepped => {
                Effect::StartsIncarnations
            }
            Self::Suspended => Effect::Suspends,
            Self::TierChanged | Self::QuotaReloaded => Effect::TakesTurns,
        }
    }

    /// Returns the faults that have one of these effects.
    pub(crate) fn that(effects: &[Effect]) -> impl Iterator<Item = Self> {
        Self::all().filter(|fault| effects.contains(&fault.effect()))
    }

    /// Returns the fault of a name, as it is displayed with hyphens for spaces: `request-lost`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|fault| fault.name() == name)
    }

    /// Returns all faults.
    pub fn all() -> impl Iterator<Item = Self> {
        let of_messages = Self::OF_MESSAGES.into_iter().map(|(fault, _)| fault);
        of_messages.chain(Self::OF_THE_WORLD.into_iter().map(|(fault, _)| fault))
    }

    /// Returns its name, which is one word.
    #[must_use]
    pub fn name(self) -> String {
        self.to_string().replace(' ', "-")
    }

    /// Faults of single messages, calls and operations, with their chances in a million.
    pub(crate) const OF_MESSAGES: [(Self, u32); 7] = [
        (Self::RequestLost, 10_000),
        (Self::ReplyLost, 10_000),
        (Self::Delayed, 20_000),
        (Self::Held, 2_000),
        (Self::CallerLeaves, 20_000),
        (Self::LateRefund, 100_000),
        (Self::TierChanged, 200_000),
    ];

    /// Faults of processes, their network and the server, with their shares.
    const OF_THE_WORLD: [(Self, u64); 16] = [
        (Self::Stopped, 10),
        (Self::Suspended, 4),
        (Self::Killed, 8),
        (Self::Cut, 10),
        (Self::Partitioned, 8),
        (Self::Slow, 8),
        (Self::ErrorReplies, 10),
        (Self::ScriptsFlushed, 8),
        (Self::Restarted, 2),
        (Self::FailedOver, 2),
        (Self::Stale, 2),
        (Self::Flooded, 6),
        (Self::Stepped, 2),
        (Self::Slewed, 8),
        (Self::QuotaReloaded, 4),
        (Self::SettingsChanged, 6),
    ];
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RequestLost => "request lost",
            Self::ReplyLost => "reply lost",
            Self::Delayed => "message delayed",
            Self::Held => "message held past a lease",
            Self::CallerLeaves => "caller leaves",
            Self::LateRefund => "receipt refunded late",
            Self::Stopped => "process stopped",
            Self::Suspended => "process suspended",
            Self::Killed => "process killed",
            Self::Cut => "connection cut",
            Self::Partitioned => "network partitioned",
            Self::Slow => "server slow",
            Self::ErrorReplies => "server replies errors",
            Self::ScriptsFlushed => "script cache flushed",
            Self::Restarted => "server restarted empty",
            Self::FailedOver => "failover that loses writes",
            Self::Stale => "stale server answers",
            Self::Flooded => "flood of fresh keys",
            Self::Stepped => "server clock stepped",
            Self::Slewed => "server clock slewed",
            Self::TierChanged => "tier changed",
            Self::QuotaReloaded => "quota reloaded",
            Self::SettingsChanged => "settings changed",
        })
    }
}

/// The faults of one run. Each run has a part of all kinds, so that rare ones happen also without those that excuse
/// much.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    random: Random,
    of_messages: Vec<(Fault, u32)>,
    of_the_world: Vec<(Fault, u64)>,
    without: Vec<Fault>,
    are_on: bool,
    /// How often each fault happened.
    pub(crate) counts: BTreeMap<Fault, u64>,
}

/// The mean time between two faults of the world.
const MEAN_GAP: Micros = 250_000;

impl Faults {
    /// Returns the faults of a seed, apart from some. They have not begun.
    #[must_use]
    pub(crate) fn new(mut random: Random, without: &[Fault]) -> Self {
        // Quotas that take turns excuse much of what is leased.
        let takes_turns = random.below(3) == 0;
        let mut is_chosen = |fault: Fault| {
            random.below(2) == 0 && (takes_turns || fault.effect() != Effect::TakesTurns)
        };
        let of_messages = Fault::OF_MESSAGES.into_iter().filter(|(it, _)| is_chosen(*it)).collect();
        let of_the_world =
            Fault::OF_THE_WORLD.into_iter().filter(|(it, _)| is_chosen(*it)).collect();
        let (without, counts) = (without.to_vec(), BTreeMap::new());
        Self { random, of_messages, of_the_world, without, are_on: false, counts }
    }

    /// Returns whether a fault of a message happens now.
    pub(crate) fn happens(&mut self, fault: Fault) -> bool {
        let chance = self.of_messages.iter().find(|(kind, _)| *kind == fault);
        let chance = chance.map_or(0, |(_, chance)| *chance);
        let is_drawn = self.are_on && self.random.happens(chance);
        let happens = is_drawn && !self.are_without(fault);
        if happens {
            self.count(fault);
        }
        happens
    }

    /// Returns the next fault of the world, and the time until then.
    pub(crate) fn next(&mut self) -> (Option<Fault>, Micros) {
        let gap = self.random.between(1_000, 2 * MEAN_GAP);
        let all: u64 = self.of_the_world.iter().map(|(_, share)| share).sum();
        let mut place = self.random.below(all);
        for (fault, share) in &self.of_the_world {
            if place < *share {
                return (Some(*fault), gap);
            }
            place -= share;
        }
        (None, gap)
    }

    /// Counts a fault.
    pub(crate) fn count(&mut self, fault: Fault) {
        *self.counts.entry(fault).or_default() += 1;
    }

    /// Returns whether a fault is left out.
    pub(crate) fn are_without(&self, fault: Fault) -> bool {
        self.without.contains(&fault)
    }

    /// Begins faults of messages.
    pub(crate) const fn begin(&mut self) {
        self.are_on = true;
    }

    /// Ends all faults of messages.
    pub(crate) const fn end(&mut self) {
        self.are_on = false;
    }
}
