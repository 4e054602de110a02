//! Blocks after strikes: `limiter_core::Blocks` beside the rules, in stores, and by threads.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod memory;
mod rules;
mod schedule;
mod settings;
mod stores;
mod threads;
