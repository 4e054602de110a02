//! The lines that a process prints for the program that started it.

use std::{fmt, iter::Sum};

/// What a process has counted since its first check.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) admitted: u64,
    /// How many of them permits of a lease admitted, in memory.
    pub(crate) from_leases: u64,
    pub(crate) refused: u64,
    /// Checks that ended with an error.
    pub(crate) failed: u64,
    pub(crate) leases: u64,
    pub(crate) permits: u64,
    pub(crate) unused: u64,
    pub(crate) returned: u64,
}

/// A line of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Report {
    /// The process is connected, and waits for a line on its standard input.
    Ready,
    Checking(Totals),
    /// The process makes no checks any more. Its leases have not ended.
    Checked(Totals),
    /// The process has given its leases back.
    Drained(Totals),
}

impl Report {
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (word, numbers) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "ready" => Some(Self::Ready),
            "checking" => Totals::parse(numbers).map(Self::Checking),
            "checked" => Totals::parse(numbers).map(Self::Checked),
            "drained" => Totals::parse(numbers).map(Self::Drained),
            _ => None,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("ready"),
            Self::Checking(totals) => write!(f, "checking{totals}"),
            Self::Checked(totals) => write!(f, "checked{totals}"),
            Self::Drained(totals) => write!(f, "drained{totals}"),
        }
    }
}

impl Totals {
    fn parse(text: &str) -> Option<Self> {
        let numbers: Result<Vec<u64>, _> = text.split(' ').map(str::parse).collect();
        let [admitted, from_leases, refused, failed, leases, permits, unused, returned] =
            numbers.ok()?.try_into().ok()?;
        Some(Self { admitted, from_leases, refused, failed, leases, permits, unused, returned })
    }

    fn numbers(&self) -> [u64; 8] {
        let Self { admitted, from_leases, refused, failed, leases, permits, unused, returned } =
            *self;
        [admitted, from_leases, refused, failed, leases, permits, unused, returned]
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.numbers().iter().try_for_each(|number| write!(f, " {number}"))
    }
}

impl Sum for Totals {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            admitted: sum.admitted + one.admitted,
            from_leases: sum.from_leases + one.from_leases,
            refused: sum.refused + one.refused,
            failed: sum.failed + one.failed,
            leases: sum.leases + one.leases,
            permits: sum.permits + one.permits,
            unused: sum.unused + one.unused,
            returned: sum.returned + one.returned,
        })
    }
}
