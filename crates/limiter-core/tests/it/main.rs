//! What the crate promises, one file an area.

#![cfg(feature = "std")]
#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod conformance;
mod extremes;
mod keys;
mod laws;
mod memory;
mod notation;
#[cfg(feature = "serde")]
mod serde;
mod threads;
mod validation;
