//! Variants of the simulated world that are wrong on purpose, which show that the auditor can fail.

use crate::{
    fault::{Effect, Fault},
    vocabulary::Micros,
};

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The server executes each call of a decision twice.
    ExecutesTwice,
    /// The server executes each refund twice.
    RefundsTwice,
    /// The server decides every twentieth call as if its keys were fresh, and writes nothing.
    DecidesWrongly,
    /// The server executes every twentieth call, and replies that it has no memory.
    FailsAfterExecution,
    /// The server loses its keys on every two hundredth call, and nobody knows.
    LosesKeys,
    /// The server charges leases for their start.
    ChargesLeasesForTheirStart,
    /// Leases by GCRA end later for processes than for the server, which charges them for the half of their time.
    LeasesEndLate,
    /// Leases that begin later begin at once for processes.
    LeasesBeginEarly,
    /// The clock of a stopped process stands still, and nobody knows. So it spends leases after their end.
    ClockStandsStill,
    /// The client sends a call again after it was lost, although it may have been executed.
    SendsAgain,
    /// The server forgets what every tenth call has written.
    LosesWrites,
    /// The server's clock runs a tenth faster, and nobody knows.
    ClockRunsFast,
    /// A process that has lost its connection gets no other one.
    NeverReconnects,
    /// Every fiftieth sleep of a limiter never ends, so that a waiter is forgotten.
    ForgetsSleeps,
    /// The server gives back what reservations behind a charge need.
    RefundsBehindReservations,
    /// The server gives a charge back whole after it has drained.
    RefundsWhatHasDrained,
    /// The server's refusals name a wait of a microsecond, so that nobody pauses.
    NamesNoWaits,
    /// The server's refusals name four times the wait, so that denials are cached too long.
    NamesLongWaits,
    /// A renewal adds a permit again that the server has lost, although others have taken its place.
    RenewsWithoutRoom,
    /// Permits are taken at the time of the process's clock, and those of the processes differ.
    PermitsByClientClocks,
    /// A permit is lost an expiry after the reply to its last request, not after that was sent: so the server's deadline is
    /// earlier than the holder's by the way of the reply.
    DeadlinesFromReplies,
    /// Work goes on after its permit is lost, in strict processes, too.
    IgnoresDeadlines,
    /// Work goes on for a while after its permit was given back.
    LeavesEarly,
    /// A renewal does not let the key last longer, so the server forgets permits that are held for long.
    RenewalsForgetExpiry,
    /// The server replies that permits were reset, and keeps them.
    IgnoresResets,
    /// Callers give the permits of their process's share back at once, and work on.
    ForgetsShares,
}

/// The limiters that a wrong variant concerns, and the traffic that shows it. Its fleets have no others, so that it is found
/// sooner. Their server is near, and no work is charged afterwards, because that excuses much.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Concern {
    /// The groups of which a fleet has one, as [`Fleet`](crate::fleet::Fleet) numbers them.
    pub(crate) groups: &'static [u64],
    pub(crate) is_for_gcra_alone: bool,
    /// The least and the most of a caller's longest pause, of busy and of quiet times, if not those of other fleets.
    pub(crate) longest_pause: Option<(Micros, Micros)>,
    pub(crate) busy: Option<(Micros, Micros)>,
    pub(crate) quiet: Option<(Micros, Micros)>,
}

const GCRA: Concern =
    Concern { groups: &[0], is_for_gcra_alone: true, longest_pause: None, busy: None, quiet: None };

/// Callers that pause for so long that keys recover while processes hold leases.
const LEASED_WITH_PAUSES: Concern =
    Concern { groups: &[4], longest_pause: Some((1_000_000, 2_500_000)), ..GCRA };

/// The same, and times in which no caller asks, after each of which all keys are fresh.
const LEASED_WITH_QUIET: Concern = Concern {
    longest_pause: Some((1_000_000, 2_000_000)),
    busy: Some((1_000_000, 2_000_000)),
    quiet: Some((1_500_000, 3_000_000)),
    ..LEASED_WITH_PAUSES
};

/// Times in which no caller asks, shorter than those for which processes are stopped.
const LEASED_WITH_STOPS: Concern =
    Concern { groups: &[4], is_for_gcra_alone: false, quiet: Some((300_000, 1_000_000)), ..GCRA };

/// What the auditor excuses: incarnations of all keys, which have a bound each, suspensions, and quotas that take turns.
const EXCUSED: [Effect; 3] = [Effect::StartsIncarnations, Effect::Suspends, Effect::TakesTurns];

impl Wrong {
    /// All of them.
    pub const ALL: [Self; 26] = [
        Self::ExecutesTwice,
        Self::RefundsTwice,
        Self::DecidesWrongly,
        Self::FailsAfterExecution,
        Self::LosesKeys,
        Self::ChargesLeasesForTheirStart,
        Self::LeasesEndLate,
        Self::LeasesBeginEarly,
        Self::ClockStandsStill,
        Self::SendsAgain,
        Self::LosesWrites,
        Self::ClockRunsFast,
        Self::NeverReconnects,
        Self::ForgetsSleeps,
        Self::RefundsBehindReservations,
        Self::RefundsWhatHasDrained,
        Self::NamesNoWaits,
        Self::NamesLongWaits,
        Self::RenewsWithoutRoom,
        Self::PermitsByClientClocks,
        Self::DeadlinesFromReplies,
        Self::IgnoresDeadlines,
        Self::LeavesEarly,
        Self::RenewalsForgetExpiry,
        Self::IgnoresResets,
        Self::ForgetsShares,
    ];

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ExecutesTwice => "executes-twice",
            Self::RefundsTwice => "refunds-twice",
            Self::DecidesWrongly => "decides-wrongly",
            Self::FailsAfterExecution => "fails-after-execution",
            Self::LosesKeys => "loses-keys",
            Self::ChargesLeasesForTheirStart => "charges-leases-for-their-start",
            Self::LeasesEndLate => "leases-end-late",
            Self::LeasesBeginEarly => "leases-begin-early",
            Self::ClockStandsStill => "clock-stands-still",
            Self::SendsAgain => "sends-again",
            Self::LosesWrites => "loses-writes",
            Self::ClockRunsFast => "clock-runs-fast",
            Self::NeverReconnects => "never-reconnects",
            Self::ForgetsSleeps => "forgets-sleeps",
            Self::RefundsBehindReservations => "refunds-behind-reservations",
            Self::RefundsWhatHasDrained => "refunds-what-has-drained",
            Self::NamesNoWaits => "names-no-waits",
            Self::NamesLongWaits => "names-long-waits",
            Self::RenewsWithoutRoom => "renews-without-room",
            Self::PermitsByClientClocks => "permits-by-client-clocks",
            Self::DeadlinesFromReplies => "deadlines-from-replies",
            Self::IgnoresDeadlines => "ignores-deadlines",
            Self::LeavesEarly => "leaves-early",
            Self::RenewalsForgetExpiry => "renewals-forget-expiry",
            Self::IgnoresResets => "ignores-resets",
            Self::ForgetsShares => "forgets-shares",
        }
    }

    /// Returns whether it is a variant of worlds with requests in flight.
    pub(crate) const fn is_of_in_flight(self) -> bool {
        matches!(
            self,
            Self::RenewsWithoutRoom
                | Self::PermitsByClientClocks
                | Self::DeadlinesFromReplies
                | Self::IgnoresDeadlines
                | Self::LeavesEarly
                | Self::RenewalsForgetExpiry
                | Self::IgnoresResets
                | Self::ForgetsShares
        )
    }

    /// Returns the limiters that it concerns and their traffic, if not all.
    pub(crate) const fn concern(self) -> Option<Concern> {
        match self {
            Self::ChargesLeasesForTheirStart => Some(LEASED_WITH_QUIET),
            Self::LeasesEndLate => Some(LEASED_WITH_PAUSES),
            Self::ClockStandsStill => Some(LEASED_WITH_STOPS),
            Self::RefundsBehindReservations | Self::RefundsWhatHasDrained => Some(GCRA),
            _ => None,
        }
    }

    /// Returns the fault of the world that happens in place of another one.
    pub(crate) const fn in_place_of(self, fault: Fault) -> Fault {
        match self {
            Self::LeasesEndLate | Self::ClockStandsStill => Fault::Stopped,
            _ => fault,
        }
    }

    /// Returns the faults without which it is found sooner.
    #[must_use]
    pub fn best_without(self) -> Vec<Fault> {
        match self {
            Self::ChargesLeasesForTheirStart
            | Self::LeasesEndLate
            | Self::ClockStandsStill
            | Self::RefundsBehindReservations
            | Self::RefundsWhatHasDrained
            | Self::PermitsByClientClocks
            | Self::DeadlinesFromReplies
            | Self::IgnoresDeadlines
            | Self::LeavesEarly
            | Self::RenewalsForgetExpiry
            | Self::IgnoresResets
            | Self::ForgetsShares => Fault::that(&EXCUSED).collect(),
            // The server has to lose permits.
            Self::RenewsWithoutRoom => {
                vec![Fault::FailedOver, Fault::Stale, Fault::Stepped, Fault::Suspended]
            }
            _ => Vec::new(),
        }
    }
}
