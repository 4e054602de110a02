//! The client library `fred`: its settings, a connection that is replaced when it hangs, and what its
//! errors mean.

#[cfg(feature = "fred-client")]
pub(crate) mod brought;
pub(crate) mod command;
pub(crate) mod node;
pub(crate) mod start;
