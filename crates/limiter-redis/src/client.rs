//! What a limiter needs of a client library: to run one script on one key.

use std::{future::Future, sync::Arc, time::Duration};

use limiter_core::Error;

/// Runs scripts on a Redis or Valkey server.
///
/// [`Connection`](crate::Connection) implements it, over the library `fred`. To use another one,
/// implement it for a type of yours; clones are expected to share their connections.
pub trait ScriptClient: Clone + Send + Sync + 'static {
    /// Runs the script once, and returns the integers that it replied: those of an array, or the
    /// one that is the reply.
    ///
    /// The future ends within `within`, which is not zero. The call must not be sent again once it
    /// may have been executed, since that could charge twice; and it must not be sent late, once
    /// the time is over.
    fn run(
        &self,
        call: ScriptCall,
        within: Duration,
    ) -> impl Future<Output = Result<Vec<i64>, RunError>> + Send;

    /// Returns a number of the server that has the key, so that the failures of one are not taken
    /// for those of others: the same for as long as the server is known, or zero where there is but
    /// one server, or none that is known to have the key.
    ///
    /// Numbers are best small: beyond 31, servers share what is known of failures.
    fn server_of(&self, key: &[u8]) -> usize {
        let _ = key;
        0
    }

    /// Returns what errors and the log call the server that has the key, such as `10.0.0.1:6379`, or
    /// nothing where there is but one, or none that is known to have it.
    fn name_of(&self, key: &[u8]) -> Option<String> {
        let _ = key;
        None
    }
}

/// One script call: `EVALSHA` or `EVAL`, with one key.
#[derive(Clone, Debug)]
pub struct ScriptCall {
    /// Which script, and by which command.
    pub script: ScriptName,
    /// `KEYS[1]`.
    pub key: Vec<u8>,
    /// `ARGV[1]`, which may be any bytes.
    pub quotas: Arc<[u8]>,
    /// `ARGV[2]` and on.
    pub arguments: Vec<i64>,
    /// Whether the script writes nothing, so that a replica may run it.
    pub read_only: bool,
}

/// A script, as a server is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptName {
    /// The SHA-1 digest of its source in hexadecimal digits, for `EVALSHA`.
    Digest(Arc<str>),
    /// Its source, for `EVAL`.
    Source(Arc<str>),
}

/// Why a script returned nothing.
#[derive(Debug)]
pub enum RunError {
    /// The server does not have the script by that digest (`NOSCRIPT`); nothing was executed.
    NotCached,
    /// Anything else.
    Failed(Error),
}
