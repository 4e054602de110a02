//! Leases over GCRA: a process takes permits in bulk, and spends them in memory until the lease ends.
//!
//! With a burst of 5 and a permit a unit, a lease of 3 permits for 2 units is charged as if all of it were spent at its end:
//! the debt of a fresh key becomes 2 + 3. The process spends nothing after its own clock has counted 1 unit since it asked,
//! because that clock may be late. Callers who wait for a late reply are served even then, because they count as admitted
//! when the lease was granted.
//!
//! Unused permits are returned less what has drained since the grant. A check is returned in part while any lease
//! lasts, because a lease that was granted since may rely on its debt. So a charge drains until the latest end of the
//! key's leases, less the length of its own if it is a lease.
//!
//! Where the limit is used up, a lease is granted *ahead*. With a burst of 5 and a debt of 4, a lease of 3 permits
//! raises the debt to 7, so its permits fit once 2 have drained: it begins 2 units after its grant, and lasts as long
//! after that as any lease. It is granted only if nothing is reserved behind the debt, which means that the debt is at
//! most the burst. The process spends none of it before its own clock has counted 2 units since the reply, and nothing
//! after the clock has counted 2 units and the length less 1 since it asked. No caller is served by the reply, because
//! nothing is admitted for the moment of the grant. Until it begins, a lease ahead is returned as a reservation does,
//! whole or not at all. Afterwards it drains like any lease, from the moment at which it began.
//!
//! A lease ahead of `n` permits for `L` units has at most `burst - L` permits. The debt is the burst when the lease
//! begins, and `n` of that are the lease's own, so `burst - n` is left of what was charged before. To be charged for
//! its end, a lease needs a debt of at least `L` below its permits: `max(burst - n, L) + n` is within the burst only if
//! `n` is at most `burst - L`. With more, the debt drains below the permits before the lease ends. If 5 permits for 2
//! units begin at a debt of 5, a check fits a unit later, and all 5 permits are still spent then.
//!
//! The server may grant a lease ahead in the same request as a check or another lease. That is the same as two steps
//! here, and a process that has a lease and another one ahead is the same as two processes.
//!
//! A request arrives when it is sent, because a later arrival only shortens the time in which the permits are spent.
//! For the same reason, no schedule here shows that a lease ahead has to begin by a count from the reply, not from the
//! request. A lost reply, a killed process and permits that are not spent are the same to the key: a lease is
//! forgotten. Callers hold at most one receipt at a time.

mod code;
mod search;
mod state;
mod steps;

use std::sync::LazyLock;

use self::search::{Explored, counterexamples, explore};
use crate::{admissions::Units, server::Quota};

/// How much earlier a process ends a lease than the server.
const EARLY: Units = 1;

/// How late the clock of a process can be while a lease lasts. It may be late by a unit more than the lease ends early,
/// because moments are whole units, so the last one before an end is a unit before it.
const LATE: Units = EARLY + 1;

/// How long after the end of a lease its reply arrives at the latest.
const LATEST_REPLY: Units = 1;

/// How many states are visited at most.
const MOST_STATES: usize = 500_000;

/// A key with leases. A permit adds a unit to its debt, so the burst is also the debt of a burst.
#[derive(Clone, Copy, Debug)]
struct Leases {
    rule: Rule,
    burst: Units,
    /// How long leases last for the server, which processes set differently.
    lengths: &'static [Units],
    /// How far ahead permits are reserved.
    horizon: Units,
    /// How many processes have leases.
    processes: usize,
    /// Whether leases are granted ahead if their permits do not fit now.
    ahead: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Right,
    /// A lease raises the debt only by its permits, as if they were spent at once.
    ChargedForItsStart,
    /// As before, but a grant leaves as many permits as drain until its end.
    KeptBackByGrantsAlone,
    /// A lease lasts from its reply on.
    EndsAfterTheReply,
    /// A lease lasts until the clock of its process has counted its length.
    NoAllowanceForClocks,
    /// All unused permits are returned, whatever has drained.
    AllUnusedComeBack,
    /// A process still spends the permits that it has given back.
    SpendsWhatItGaveBack,
    /// A lease is returned as if there were no others.
    ReturnsIgnoreOtherLeases,
    /// A check is returned as if there were no leases.
    ChecksIgnoreLeases,
    /// A check is returned as if all leases were as long as those of its own process.
    ChecksKnowOneLength,
    /// A lease ahead has up to a burst of permits.
    AheadUpToTheBurst,
    /// A process spends a lease ahead from the reply on.
    AheadSpentAtOnce,
    /// A lease ahead lasts as long after its reply as it should after its request.
    AheadEndsAfterTheReply,
    /// A grant ahead raises the latest end of the key's leases as if the lease began at once.
    AheadEndsEarlier,
    /// A part of a lease ahead is returned before the lease begins, and the process keeps the rest.
    PartOfALeaseAhead,
}

/// The numbers of a key on the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Server {
    debt: Units,
    /// How long the last lease lasts.
    latest_end: Units,
}

/// What a refund or a returned lease is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Charge {
    /// The moment that it was made for.
    at: Units,
    cost: Units,
    /// When the debt ended with it. It matters only behind a debt of more than a burst.
    mark: Units,
    /// How long it lasts if it is a lease, else 0.
    length: Units,
}

impl Leases {
    fn quota(&self) -> Quota {
        // A lease ahead raises a debt of at most a burst by less than a burst.
        let reach = if self.ahead { self.burst } else { 0 };
        Quota { increment: 1, burst: self.burst, horizon: self.horizon.max(reach) }
    }

    /// Returns for how long after it asked, by its own clock, a process spends a lease.
    fn spent_for(&self, length: Units) -> Units {
        if self.rule == Rule::NoAllowanceForClocks { length } else { length - EARLY }
    }

    /// Returns the debt on which a lease is charged.
    fn base(&self, server: Server, length: Units) -> Units {
        match self.rule {
            Rule::ChargedForItsStart | Rule::KeptBackByGrantsAlone => server.debt,
            _ => server.debt.max(length),
        }
    }

    /// Returns the most permits of a lease.
    fn room(&self, server: Server, length: Units) -> Units {
        let kept = if self.rule == Rule::KeptBackByGrantsAlone { length } else { 0 };
        self.burst - self.base(server, length) - kept
    }

    /// Returns the key after a lease of so many permits.
    fn grant(&self, server: Server, permits: Units, length: Units) -> Server {
        let debt = self.base(server, length) + permits;
        Server { debt, latest_end: server.latest_end.max(length) }
    }

    /// Returns the most permits of a lease ahead. With more, the debt would not last until the end of the lease.
    fn room_ahead(&self, server: Server, length: Units) -> Units {
        match self.rule {
            // The permits of reservations and of other leases ahead are behind the debt.
            _ if !self.ahead || server.debt > self.burst => 0,
            Rule::AheadUpToTheBurst => self.burst,
            _ => self.burst - length,
        }
    }

    /// Returns when a lease ahead of so many permits begins, and the key after its grant, `None` if the permits fit
    /// now.
    fn grant_ahead(
        &self,
        server: Server,
        permits: Units,
        length: Units,
    ) -> Option<(Units, Server)> {
        let debt = server.debt + permits;
        let at = debt - self.burst;
        let end = if self.rule == Rule::AheadEndsEarlier { length } else { at + length };
        let latest_end = server.latest_end.max(end);
        (at > 0).then_some((at, Server { debt, latest_end }))
    }

    /// Charges a cost for the moment at which it fits, if that is soon enough.
    fn charge(&self, server: Server, cost: Units, within: Units) -> Option<Charge> {
        let at = (server.debt + cost - self.burst).max(0);
        let mark = server.debt.max(at) + cost;
        (cost <= self.burst && at <= within).then_some(Charge { at, cost, mark, length: 0 })
    }

    /// Returns by how much the debt falls if permits of a charge are returned.
    fn back(&self, server: Server, charge: Charge, permits: Units) -> Units {
        let Charge { at, cost, mark, length } = charge;
        let drains_until = match self.rule {
            Rule::AllUnusedComeBack if length > 0 => at,
            Rule::ReturnsIgnoreOtherLeases if length > 0 => 0,
            Rule::ChecksIgnoreLeases if length == 0 => 0,
            Rule::ChecksKnowOneLength if length == 0 => self.lengths[0],
            _ => (server.latest_end - length).max(0),
        };
        let drained = if at > 0 { 0 } else { drains_until - at };
        let mut back = permits.min(cost - drained).min(server.debt);
        if server.debt > self.burst {
            let behind = server.debt - mark;
            back = back.min(permits - behind);
        }
        let in_part = self.rule == Rule::PartOfALeaseAhead && length > 0;
        if at > 0 && back < cost && !in_part { 0 } else { back.max(0) }
    }
}

/// Two processes with leases beside checks.
const CHECKS: Leases = Leases {
    rule: Rule::Right,
    burst: 5,
    lengths: &[2, 3],
    horizon: 0,
    processes: 2,
    ahead: false,
};

/// One process with leases ahead beside checks.
const AHEAD: Leases = Leases { processes: 1, ahead: true, ..CHECKS };

/// One process with leases ahead beside reservations.
const AHEAD_AND_RESERVATIONS: Leases = Leases { burst: 4, lengths: &[2], horizon: 2, ..AHEAD };

/// Keys with and without reservations and leases ahead. Those with leases ahead are smaller, because they have more
/// states.
const RIGHT: [Leases; 5] = [
    CHECKS,
    Leases { lengths: &[3], horizon: 2, processes: 1, ..CHECKS },
    AHEAD,
    Leases { burst: 4, lengths: &[2], processes: 2, ..AHEAD },
    AHEAD_AND_RESERVATIONS,
];

/// What the right rule reaches. To find it takes seconds, and several tests use it.
static EXPLORED: LazyLock<[(Leases, Explored); RIGHT.len()]> =
    LazyLock::new(|| RIGHT.map(|leases| (leases, explore(&leases, MOST_STATES))));

#[test]
fn the_right_rule_keeps_the_bound() {
    for (leases, explored) in &*EXPLORED {
        println!("{leases:?}: {} states", explored.states.len());
        assert_eq!(explored.counterexample, None, "{leases:?}");
    }
}

/// Each wrong rule, and the shortest schedule by which it exceeds the bound.
const WRONG: [(Rule, &str); 9] = [
    (
        Rule::ChargedForItsStart,
        "grant 2 for 2; receive 0 and serve 0; wait, 0 late; check 4; spend 2 of 0",
    ),
    (
        Rule::KeptBackByGrantsAlone,
        "grant 2 for 2; receive 0 and serve 0; wait, 0 late; check 4; spend 2 of 0",
    ),
    (
        Rule::EndsAfterTheReply,
        "grant 2 for 2; wait; receive 0 and serve 0; wait, 0 late; wait, 0 late; check 4; \
         spend 2 of 0",
    ),
    (
        Rule::NoAllowanceForClocks,
        "grant 2 for 2; receive 0 and serve 0; wait; wait, 0 late; wait, 0 late; check 4; \
         spend 2 of 0",
    ),
    (
        Rule::AllUnusedComeBack,
        "grant 2 for 2; receive 0 and serve 0; wait; grant 2 for 2; return 0; \
         receive 0 and serve 0; wait, 0 late; wait, 0 late; check 4; spend 2 of 0",
    ),
    (
        Rule::SpendsWhatItGaveBack,
        "grant 3 for 2; receive 0 and serve 0; return 0; check 3; spend 3 of 0",
    ),
    (
        Rule::ReturnsIgnoreOtherLeases,
        "grant 2 for 2; receive 0 and serve 0; wait; grant 2 for 3; return 0; \
         receive 0 and serve 0; wait; wait, 0 late; wait, 0 late; check 4; spend 2 of 0",
    ),
    (
        Rule::ChecksIgnoreLeases,
        "check 1; grant 2 for 2; refund 1 of 1 at +0; receive 0 and serve 0; wait, 0 late; \
         wait, 0 late; check 4; spend 2 of 0",
    ),
    (
        Rule::ChecksKnowOneLength,
        "check 5; wait; wait; grant 2 for 3; refund 1 of 5 at -2; receive 0 and serve 0; \
         wait; wait, 0 late; wait, 0 late; check 4; spend 2 of 0",
    ),
];

/// Each wrong rule of leases ahead, on a key that has them, and the shortest schedule.
const WRONG_AHEAD: [(Rule, Leases, &str); 5] = [
    (
        Rule::AheadUpToTheBurst,
        AHEAD,
        "check 1; grant 5 for 2 at +1; receive 0 and serve 0; wait; wait, 0 late; check 1; \
         spend 5 of 0",
    ),
    (
        Rule::AheadSpentAtOnce,
        AHEAD,
        "check 5; grant 2 for 2 at +2; receive 0 and serve 0; spend 1 of 0",
    ),
    (
        Rule::AheadEndsAfterTheReply,
        AHEAD,
        "check 5; refund 2 of 5 at +0; grant 3 for 2 at +1; wait; receive 0 and serve 0; wait; \
         wait, 0 late; wait, 0 late; check 3; spend 3 of 0",
    ),
    (
        Rule::AheadEndsEarlier,
        AHEAD,
        "check 5; grant 2 for 2 at +2; refund 5 of 5 at +0; receive 0 and serve 0; wait; wait; \
         wait, 0 late; check 4; spend 2 of 0",
    ),
    (
        Rule::PartOfALeaseAhead,
        AHEAD_AND_RESERVATIONS,
        "grant 2 for 2; reserve 1 within 2; receive 0 and serve 0; return 0; \
         grant 2 for 2 at +2; receive 0 and serve 0; return 1 of 0; refund 1 of 1 at +1; wait; wait; \
         wait, 0 late; wait, 0 late; check 4; spend 1 of 0",
    ),
];

#[test]
fn each_wrong_rule_exceeds_the_bound() {
    let leases = WRONG.map(|(rule, _)| Leases { rule, ..CHECKS });
    let found = counterexamples(leases, MOST_STATES);
    assert_eq!(found, WRONG.map(|(_, schedule)| Some(schedule.to_owned())));
}

#[test]
fn each_wrong_rule_of_leases_ahead_exceeds_the_bound() {
    let leases = WRONG_AHEAD.map(|(rule, leases, _)| Leases { rule, ..leases });
    let found = counterexamples(leases, MOST_STATES);
    assert_eq!(found, WRONG_AHEAD.map(|(.., schedule)| Some(schedule.to_owned())));
}
