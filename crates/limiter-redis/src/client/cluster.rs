//! Routing in a cluster: each node has a connection of its own, and calls follow the slots.
//!
//! `fred` 10.1.0 has a client for clusters, but it reads the reply to `ASKING` as the next frame of a
//! connection on which other replies are under way (`send_asking_with_policy` in
//! `router/utils.rs`), so that every later reply goes to the wrong caller. And its slot
//! synchronisation fails as a whole if one node can't be reached.

pub(crate) mod member;
pub(crate) mod routing;
