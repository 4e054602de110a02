//! The script against its rows, the laws and its twin, on a real server and a clock that the tests
//! set; and what stands before the store, at moments that the tests choose.

mod batches;
mod breaker;
mod clock;
mod conformance;
mod denials;
mod events;
mod keys;
mod laws;
mod memory;
mod models;
mod noscript;
mod receipts;
mod replacing;
mod replies;
mod store;
mod tapes;
mod twins;
