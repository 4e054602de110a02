//! The scripts, in Rust.

mod gcra;
mod in_flight;
mod lease;
mod log;
mod policy;
mod refund;
mod window;

use limiter_core::algorithms::WindowKind;

use crate::{call::Call, reply::Reply};

/// When scripts begin to believe their clock: at the start of 2020, in microseconds of Unix time.
const EARLIEST: i64 = 1_577_836_800_000_000;

/// A script of limiter-redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Twin {
    Gcra,
    Window,
    Counter,
    Log,
    Policy,
    Lease,
    Refund,
    Reset,
    Enter,
    Renew,
    Leave,
}

impl Twin {
    /// Returns the twin of the script with a name.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "gcra" => Self::Gcra,
            "window" => Self::Window,
            "counter" => Self::Counter,
            "log" => Self::Log,
            "policy" => Self::Policy,
            "lease" => Self::Lease,
            "refund" => Self::Refund,
            "reset" => Self::Reset,
            "enter" => Self::Enter,
            "renew" => Self::Renew,
            "leave" => Self::Leave,
            _ => return None,
        })
    }

    /// Runs the script.
    pub(crate) fn run(self, call: &mut Call<'_>) -> Result<Reply, Reply> {
        if !matches!(self, Self::Reset | Self::Leave) && call.now < EARLIEST {
            return Err(Reply::error("ERR the server's clock is before 2020: set it"));
        }
        match self {
            Self::Gcra => gcra::run(call),
            Self::Window => window::run(call),
            Self::Counter => window::run_kind(call, WindowKind::Sliding),
            Self::Log => log::run(call),
            Self::Policy => policy::run(call),
            Self::Lease => lease::run(call),
            Self::Refund => refund::run(call),
            Self::Reset => Ok(reset(call)),
            Self::Enter => in_flight::enter(call),
            Self::Renew => in_flight::renew(call),
            Self::Leave => in_flight::leave(call),
        }
    }
}

fn reset(call: &mut Call<'_>) -> Reply {
    let deleted = call.keys.iter().filter(|key| call.space.delete(key)).count();
    Reply::Integer(i64::try_from(deleted).unwrap_or(i64::MAX))
}
