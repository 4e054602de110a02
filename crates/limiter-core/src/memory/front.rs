//! The limiter: how it is built, and what it does.

mod acquire;
mod builder;
mod capacity;
mod decide;
mod dynamic;
mod limiter;
mod methods;

pub use builder::Builder;
pub(crate) use capacity::check_capacity;
pub use decide::MemoryDemand;
pub use limiter::MemoryLimiter;
