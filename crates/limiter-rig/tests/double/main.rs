//! The double is a server: it replies what a real one replies to the same calls.
//!
//! ```console
//! $ cargo xtask test --server redis-6.2 -p limiter-rig --test double
//! ```

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper that fails fails its test"
)]

mod cluster;
mod commands;
mod lua;
mod pair;
mod random;
mod replay;
mod rules;
mod scripts;
mod wire;
