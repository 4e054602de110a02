//! What a limiter needs of a client library: to run one script.

use std::{borrow::Cow, future::Future, slice, sync::Arc, time::Duration};

use limiter_core::Error;

use crate::scripts::Call;

/// Runs scripts on a Redis or Valkey server.
///
/// [`Connection`](crate::Connection) implements it, over the library `fred`. To use another one,
/// implement it for a type of yours; clones are expected to share their connections.
pub trait ScriptClient: Clone + Send + Sync + 'static {
    /// Runs the script once, and returns its reply.
    ///
    /// The future ends within `within`, which is not zero. The call must not be sent again once it
    /// may have been executed, since that could charge twice; and it must not be sent late, once
    /// the time is over.
    fn run(
        &self,
        call: &ScriptCall,
        within: Duration,
    ) -> impl Future<Output = Result<ScriptReply, RunError>> + Send;

    /// Returns whether a call may have several keys, which then are all of one server: not in a
    /// cluster, where each key is in a slot of its own.
    ///
    /// Unless it is implemented, each call has one key, and checks that are made at the same moment
    /// are as many calls.
    fn takes_many_keys(&self) -> bool {
        false
    }

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

/// One script call: `EVALSHA` or `EVAL`.
#[derive(Clone, Debug)]
pub struct ScriptCall {
    /// Which script, and by which command.
    pub script: ScriptName,
    /// `KEYS`: one, unless the client [takes several](ScriptClient::takes_many_keys).
    pub keys: Vec<Vec<u8>>,
    /// `ARGV[1]`, which may be any bytes.
    pub quotas: Arc<[u8]>,
    /// `ARGV[2]` and on.
    pub arguments: Vec<i64>,
    /// Whether the script writes nothing, so that a replica may run it.
    pub read_only: bool,
}

impl ScriptCall {
    /// Returns a call by the script's digest that may write.
    pub(crate) fn new(call: Call<'_>, keys: Vec<Vec<u8>>) -> Self {
        let Call { script, quotas, arguments } = call;
        let (script, quotas) = (script.by_digest(), Arc::clone(quotas));
        Self { script, keys, quotas, arguments, read_only: false }
    }
}

/// A script, as a server is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptName {
    /// The SHA-1 digest of its source in hexadecimal digits, for `EVALSHA`.
    Digest(Arc<str>),
    /// Its source, for `EVAL`.
    Source(Arc<str>),
}

/// What a script replied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptReply {
    /// An integer.
    Integer(i64),
    /// A text: a bulk string or a simple one. Bytes that are no UTF-8 may be replaced.
    Text(String),
    /// Several, in their order.
    Array(Vec<ScriptReply>),
}

impl ScriptReply {
    /// Returns the integers of a reply that consists of them: those of an array, or the one.
    pub(crate) fn integers(&self) -> Option<Cow<'_, [i64]>> {
        let integer = |reply: &Self| match reply {
            Self::Integer(integer) => Some(*integer),
            _ => None,
        };
        match self {
            Self::Integer(integer) => Some(slice::from_ref(integer).into()),
            Self::Text(_) => None,
            Self::Array(replies) => {
                replies.iter().map(integer).collect::<Option<_>>().map(Cow::Owned)
            }
        }
    }
}

/// Why a script returned nothing.
#[derive(Debug)]
pub enum RunError {
    /// The server does not have the script by that digest (`NOSCRIPT`); nothing was executed.
    NotCached,
    /// Anything else.
    Failed(Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_integer_is_a_list_of_one() {
        use ScriptReply::{Array, Integer, Text};

        assert_eq!(*Integer(-3).integers().unwrap(), [-3]);
        assert_eq!(*Array(vec![Integer(1), Integer(2)]).integers().unwrap(), [1, 2]);
        assert_eq!(*Array(vec![]).integers().unwrap(), []);
        assert_eq!(Text("OK".to_owned()).integers(), None);
        assert_eq!(Array(vec![Integer(1), Array(vec![])]).integers(), None);
    }
}
