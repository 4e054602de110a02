//! Reference limiters: slow and simple, so that they are obviously right.

pub(crate) mod admitted;
pub mod gcra;
mod window;

pub use admitted::Admitted;
pub use window::Model;
