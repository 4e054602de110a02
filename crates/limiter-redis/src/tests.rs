//! The scripts against the conformance rows, the laws and their twins, on a real server whose clock the
//! tests set; and what runs in this process before a call, at times that the tests choose.

mod batches;
mod breaker;
mod clock;
mod commands;
mod conformance;
mod denials;
mod events;
mod idle;
mod in_flight;
mod keys;
mod laws;
mod leased;
mod lists;
mod memory;
mod models;
mod noscript;
#[cfg(feature = "tls")]
mod options;
mod receipts;
mod replies;
mod routing;
mod sessions;
pub(crate) mod store;
mod texts;
mod twins;
mod undecided;
