//! The scripts, each beside its Rust twin.

pub(crate) mod gcra;
