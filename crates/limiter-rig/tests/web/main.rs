//! The layers on the web: behind nginx, read by a browser, and before a server that limits as GitHub does.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper that fails fails its test")]

mod browser;
mod github;
mod nginx;
