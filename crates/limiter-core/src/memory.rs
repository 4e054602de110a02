//! The limiters for one process.

mod acquire;
mod cell;
mod engine;
mod engines;
mod handle;
mod keyed;
#[cfg(test)]
mod models;
mod place;
mod queue;
mod store;
mod table;
#[cfg(test)]
mod tests;
mod unkeyed;

pub use acquire::Acquire;
pub(crate) use handle::Taken;
pub use keyed::MemoryLimiter;
pub use unkeyed::UnkeyedLimiter;
