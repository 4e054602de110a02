//! Blocks after strikes: the model and its wrong variants, and `limiter_core::Blocks` in memory.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a helper that fails fails its test"
)]

mod memory;
mod model;
mod settings;
mod stores;
mod threads;
