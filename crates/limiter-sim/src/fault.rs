//! The faults of a run, and how often each of them happens.

use std::{collections::BTreeMap, fmt};

use crate::{random::Random, vocabulary::Micros};

/// How often a fault happens, if a run has it.
#[derive(Clone, Copy, Debug)]
enum Chance {
    /// To single messages, calls and operations: so many times in a million.
    OfMessages(u32),
    /// To processes, their network and the servers: its share among those faults.
    OfTheWorld(u64),
}

macro_rules! faults {
    ($($(#[$doc:meta])* $variant:ident, $name:literal, $chance:ident($number:literal);)*) => {
        /// What can go wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Fault { $($(#[$doc])* $variant,)* }

        impl Fault {
            const ALL: &[(Self, &str, Chance)] =
                &[$((Self::$variant, $name, Chance::$chance($number)),)*];
        }

        impl fmt::Display for Fault {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $name,)* })
            }
        }
    };
}

faults! {
    /// A request is lost.
    RequestLost, "request lost", OfMessages(10_000);
    /// A reply is lost.
    ReplyLost, "reply lost", OfMessages(10_000);
    /// A request or a reply takes up to three deadlines.
    Delayed, "message delayed", OfMessages(20_000);
    /// A request or a reply takes longer than a lease.
    Held, "message held past a lease", OfMessages(2_000);
    /// A caller leaves before it has its answer.
    CallerLeaves, "caller leaves", OfMessages(20_000);
    /// A receipt is kept for long before it is refunded.
    LateRefund, "receipt refunded late", OfMessages(100_000);
    /// A caller resets a key in place of another operation.
    KeyReset, "key reset", OfMessages(4_000);
    /// An operation asks by another policy than those before: as of another plan of a customer.
    TierChanged, "tier changed", OfMessages(200_000);
    /// No task of a process runs for a time. Its clock goes on.
    Stopped, "process stopped", OfTheWorld(10);
    /// No task of a process runs for a time, and its clock stands still.
    Suspended, "process suspended", OfTheWorld(4);
    /// A process is killed, and a new one is started in its place.
    Killed, "process killed", OfTheWorld(8);
    /// Calls of a process that are under way fail, and it has no connection for a time.
    Cut, "connection cut", OfTheWorld(10);
    /// Nothing passes between a process and a server for a time.
    Partitioned, "network partitioned", OfTheWorld(8);
    /// Each call takes longer for a time.
    Slow, "server slow", OfTheWorld(8);
    /// A server refuses commands for a time: all, or those that write.
    ErrorReplies, "server replies errors", OfTheWorld(10);
    /// A server's memory is full for a time.
    MemoryFull, "memory full", OfTheWorld(8);
    /// Callers may not call one of the commands for a time.
    CommandDenied, "command denied", OfTheWorld(6);
    /// A server loses its scripts.
    ScriptsFlushed, "script cache flushed", OfTheWorld(8);
    /// The slot of a key moves to another node, one stored key after the other.
    SlotMoved, "slot moved", OfTheWorld(12);
    /// A server loses its keys and scripts, and the connections, and loads for a time.
    Restarted, "server restarted empty", OfTheWorld(2);
    /// A replica that lacks the last writes takes a server's place, and is read-only for a time.
    FailedOver, "failover that loses writes", OfTheWorld(2);
    /// The replica, with its writes of its own, answers a process for a time.
    Stale, "stale server answers", OfTheWorld(2);
    /// A process checks many fresh keys, which displace others in its tables.
    Flooded, "flood of fresh keys", OfTheWorld(6);
    /// The servers' clock steps forward or back.
    Stepped, "server clock stepped", OfTheWorld(2);
    /// The servers' clock runs faster or slower.
    Slewed, "server clock slewed", OfTheWorld(8);
    /// All processes change to another policy, each at a moment of its own.
    QuotaReloaded, "quota reloaded", OfTheWorld(4);
    /// A process is started anew with other settings, or shares its keys with another number of processes.
    SettingsChanged, "settings changed", OfTheWorld(6);
}

impl Fault {
    /// Returns all faults.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::ALL.iter().map(|(fault, ..)| *fault)
    }

    /// Returns its name as one word: `request-lost`.
    #[must_use]
    pub fn name(self) -> String {
        self.to_string().replace(' ', "-")
    }

    /// Returns the fault of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|fault| fault.name() == name)
    }

    /// Returns whether quotas take turns on a key by it, so that their bounds add up.
    const fn takes_turns(self) -> bool {
        matches!(self, Self::TierChanged | Self::QuotaReloaded)
    }

    /// Returns whether the auditor does not judge some keys for a time after it, so that wrong worlds are found sooner
    /// without it.
    #[must_use]
    pub const fn suspends_judgement(self) -> bool {
        use Fault::{FailedOver, KeyReset, Restarted, Stale, Stepped, Suspended};
        self.takes_turns()
            || matches!(self, Restarted | FailedOver | Stale | Stepped | Suspended | KeyReset)
    }
}

/// The faults of one run. Each run has about half of all kinds, so that each is also seen without the others.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    random: Random,
    chosen: Vec<(Fault, Chance)>,
    /// Those that are left out.
    pub(crate) without: Vec<Fault>,
    /// Whether the faults of messages happen.
    pub(crate) are_on: bool,
    /// How often each fault happened.
    pub(crate) counts: BTreeMap<Fault, u64>,
}

/// The mean time between two faults of the world.
const MEAN_GAP: Micros = 250_000;

impl Faults {
    /// Returns the faults of a seed, apart from some. They have not begun.
    pub(crate) fn new(mut random: Random, without: &[Fault]) -> Self {
        let take_turns = random.below(3) == 0;
        let mut chosen = Vec::new();
        for (fault, _, chance) in Fault::ALL {
            if random.below(2) == 0 && (take_turns || !fault.takes_turns()) {
                chosen.push((*fault, *chance));
            }
        }
        let (without, counts) = (without.to_vec(), BTreeMap::new());
        Self { random, chosen, without, are_on: false, counts }
    }

    /// Returns whether a fault of a message happens now.
    pub(crate) fn happens(&mut self, fault: Fault) -> bool {
        let chance = self.chosen.iter().find_map(|(kind, chance)| match chance {
            Chance::OfMessages(chance) if *kind == fault => Some(*chance),
            _ => None,
        });
        let is_drawn = self.are_on && self.random.happens(chance.unwrap_or(0));
        let happens = is_drawn && !self.without.contains(&fault);
        if happens {
            self.count(fault);
        }
        happens
    }

    /// Returns the next fault of the world, and the time until then.
    pub(crate) fn next(&mut self) -> (Option<Fault>, Micros) {
        let gap = self.random.between(1_000, 2 * MEAN_GAP);
        let of_the_world = self.chosen.iter().filter_map(|(fault, chance)| match chance {
            Chance::OfTheWorld(share) => Some((*fault, *share)),
            Chance::OfMessages(_) => None,
        });
        let all: u64 = of_the_world.clone().map(|(_, share)| share).sum();
        let mut place = self.random.below(all);
        for (fault, share) in of_the_world {
            if place < share {
                return (Some(fault), gap);
            }
            place -= share;
        }
        (None, gap)
    }

    pub(crate) fn count(&mut self, fault: Fault) {
        *self.counts.entry(fault).or_default() += 1;
    }
}
