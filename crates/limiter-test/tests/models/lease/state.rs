//! The states of a key with leases, and the steps between them.

use std::fmt;

use super::{Charge, Server};
use crate::admissions::{Admissions, Units};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) server: Server,
    /// At most one of each process.
    pub(super) leases: Vec<Lease>,
    pub(super) admissions: Admissions<Open>,
}

/// Permits that were granted to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Lease {
    pub(super) charge: Charge,
    /// How long after its grant it begins, 0 if it is not granted ahead.
    pub(super) ahead: Units,
    pub(super) is_received: bool,
    pub(super) unused: Units,
    /// How much time the clock of the process has counted since it asked.
    pub(super) counted: Units,
    /// How much time this clock has counted since the reply, at most until the lease begins.
    pub(super) waited: Units,
    /// How late this clock is.
    pub(super) late: Units,
}

/// By what the number of an admission may still change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Open {
    Receipt(Charge),
    /// The reply to a request for a lease, by which callers are served who wait.
    Reply,
}

/// A lease is named by its place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Charge {
        cost: Units,
        within: Units,
    },
    Refund {
        permits: Units,
        charge: Charge,
    },
    Use {
        charge: Charge,
    },
    /// A lease that begins now, or ahead.
    Grant {
        permits: Units,
        length: Units,
        at: Units,
    },
    Receive {
        lease: usize,
        served: Units,
    },
    Spend {
        lease: usize,
        permits: Units,
    },
    Return {
        lease: usize,
    },
    ReturnPart {
        lease: usize,
        permits: Units,
    },
    Forget {
        lease: usize,
    },
    /// The clocks of some leases' processes do not count the unit.
    Wait {
        late: [bool; 2],
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Charge { cost, within: 0 } => write!(f, "check {cost}"),
            Self::Charge { cost, within } => write!(f, "reserve {cost} within {within}"),
            Self::Refund { permits, charge: Charge { cost, at, .. } } => {
                write!(f, "refund {permits} of {cost} at {at:+}")
            }
            Self::Use { charge: Charge { cost, at, .. } } => write!(f, "use {cost} at {at:+}"),
            Self::Grant { permits, length, at: 0 } => write!(f, "grant {permits} for {length}"),
            Self::Grant { permits, length, at } => {
                write!(f, "grant {permits} for {length} at {at:+}")
            }
            Self::Receive { lease, served } => write!(f, "receive {lease} and serve {served}"),
            Self::Spend { lease, permits } => write!(f, "spend {permits} of {lease}"),
            Self::Return { lease } => write!(f, "return {lease}"),
            Self::ReturnPart { lease, permits } => write!(f, "return {permits} of {lease}"),
            Self::Forget { lease } => write!(f, "forget {lease}"),
            Self::Wait { late } => {
                let late = (0..).zip(late).filter(|(_, late)| **late);
                let late: Vec<_> = late.map(|(lease, _): (u8, _)| lease.to_string()).collect();
                let names = late.join(" and ");
                if late.is_empty() { write!(f, "wait") } else { write!(f, "wait, {names} late") }
            }
        }
    }
}
