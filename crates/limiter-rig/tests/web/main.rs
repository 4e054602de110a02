//! The layers on the web: behind nginx, and read by a browser.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper that fails fails its test")]

mod browser;
mod nginx;
