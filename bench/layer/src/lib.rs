//! Rate limit layers beside each other: what is compared, and how requests are sent.
//!
//! `cargo xtask bench layer` runs both programs of this package. One measures time. The other one
//! counts allocations, because an allocator that counts would slow down the measured calls.

pub mod cells;
pub mod contenders;
pub mod ours;
pub mod send;

/// Written before a cell's index, a contender's name and the allocations that its layer adds.
pub const SEPARATOR: char = '\t';
