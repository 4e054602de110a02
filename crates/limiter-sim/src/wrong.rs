//! Variants of the simulated world that are wrong on purpose, which show that the auditor can fail.

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
}

impl Wrong {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::ExecutesTwice,
        Self::RefundsTwice,
        Self::DecidesWrongly,
        Self::FailsAfterExecution,
        Self::LosesKeys,
        Self::ChargesLeasesForTheirStart,
        Self::ClockStandsStill,
        Self::SendsAgain,
        Self::LosesWrites,
        Self::ClockRunsFast,
        Self::NeverReconnects,
        Self::ForgetsSleeps,
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
            Self::ClockStandsStill => "clock-stands-still",
            Self::SendsAgain => "sends-again",
            Self::LosesWrites => "loses-writes",
            Self::ClockRunsFast => "clock-runs-fast",
            Self::NeverReconnects => "never-reconnects",
            Self::ForgetsSleeps => "forgets-sleeps",
        }
    }
}
