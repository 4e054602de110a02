//! What a run does apart from the processes.

use crate::{fault::Fault, vocabulary::ProcessId};

/// What happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// The faults begin.
    FirstFault,
    /// A fault, and the plan of the next one.
    NextFault,
    Fault(Fault),
    /// The faults end.
    LastFault,
    /// The replica catches up.
    Replicate,
    /// The process that was stopped or suspended goes on.
    Resume(ProcessId),
    /// A process is started in a place.
    Start(usize),
    /// The process in a place uses another tier of a limiter.
    Reload {
        place: usize,
        limiter: usize,
        tier: usize,
    },
}
