//! Requests in flight on a server of twins, by a clock that the test moves.

mod failures;
mod permits;
mod settings;
mod world;
