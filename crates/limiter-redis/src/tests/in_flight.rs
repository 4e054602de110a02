//! Requests in flight on a server in this process, by a clock that the test moves.

mod failures;
mod permits;
mod settings;
mod world;

pub(crate) use world::World;
