//! The limiter: how it is built, and what it does.

mod acquire;
mod builder;
mod capacity;
mod handle;
mod limiter;

pub use builder::Builder;
pub use limiter::MemoryLimiter;
