//! Limiters on a server in this process that runs the text of their scripts, at times that the tests choose: the
//! conformance rows, the laws, and what happens before and after a call.

mod batches;
mod blocks;
mod breaker;
mod changes;
mod client;
mod commands;
mod conformance;
mod denials;
mod denied;
mod errors;
mod events;
mod fields;
mod full_memory;
mod in_flight;
mod keys;
mod laws;
mod leased;
mod leases;
mod lists;
mod logs;
mod models;
mod noscript;
mod planted;
mod receipts;
mod replies;
mod routing;
mod sessions;
mod store;
mod texts;
mod waiting;
