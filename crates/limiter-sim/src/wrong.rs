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
}

impl Wrong {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::ExecutesTwice,
        Self::RefundsTwice,
        Self::DecidesWrongly,
        Self::FailsAfterExecution,
        Self::LosesKeys,
        Self::ChargesLeasesForTheirStart,
        Self::ClockStandsStill,
        Self::SendsAgain,
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
        }
    }
}
