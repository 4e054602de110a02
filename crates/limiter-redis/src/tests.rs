//! The script against its rows, the laws and its twin, on a real server and a clock that the tests
//! set.

mod conformance;
mod keys;
mod laws;
mod noscript;
mod store;
