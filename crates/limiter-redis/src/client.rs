//! What a limiter needs of a client library: to run one script on one key.

use std::{future::Future, time::Duration};

use limiter_core::Error;

/// Runs scripts on a Redis or Valkey server.
///
/// [`Connection`](crate::Connection) implements it, over the library `fred`. To use another one,
/// implement it for a type of yours; clones are expected to share their connections.
pub trait ScriptClient: Clone + Send + Sync + 'static {
    /// Runs the script once, and returns the integer that it replied.
    ///
    /// The future ends within `within`, which is not zero. The call must not be sent again once it
    /// may have been executed, since that could charge twice; and it must not be sent late, once
    /// the time is over.
    fn run(
        &self,
        call: ScriptCall,
        within: Duration,
    ) -> impl Future<Output = Result<i64, RunError>> + Send;
}

/// One script call: `EVALSHA` or `EVAL`, with one key.
#[derive(Clone, Debug)]
pub struct ScriptCall {
    /// Which script, and by which command.
    pub script: ScriptName,
    /// `KEYS[1]`.
    pub key: Vec<u8>,
    /// `ARGV`, all of them below 2^53.
    pub arguments: [u64; 3],
}

/// A script, as a server is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptName {
    /// The SHA-1 digest of its source in hexadecimal digits, for `EVALSHA`.
    Digest(&'static str),
    /// Its source, for `EVAL`.
    Source(&'static str),
}

/// Why a script returned nothing.
#[derive(Debug)]
pub enum RunError {
    /// The server does not have the script by that digest (`NOSCRIPT`); nothing was executed.
    NotCached,
    /// Anything else.
    Failed(Error),
}
