//! What an error means: whether the script may have been executed, and what to do about it.

use std::fmt;

use fred::error::{Error as FredError, ErrorKind as FredErrorKind};
use limiter_core::{Error, ErrorKind};

/// Why a command has no reply.
#[derive(Debug)]
pub(crate) enum NoReply {
    /// The server does not have the script by that digest.
    NotCached,
    /// Another node of the cluster serves the slot; nothing was executed.
    Moved { to: String, error: Error },
    /// Another node of the cluster is taking the slot over, and has the key already; nothing was
    /// executed.
    Ask { to: String, error: Error },
    /// Anything else, with what was heard.
    Other(Error, Heard),
}

/// Whether a failed command showed that the server is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// It answered.
    Server,
    /// It answered that it is not, or is no longer, the primary.
    Replica,
    /// Nothing came back.
    Silence,
}

impl NoReply {
    /// Returns a failure of a command that was not sent.
    pub(crate) fn not_sent(message: String) -> Self {
        Self::Other(Error::new(ErrorKind::Unavailable, message), Heard::Silence)
    }

    pub(crate) fn heard(&self) -> Heard {
        match self {
            Self::Other(_, heard) => *heard,
            _ => Heard::Server,
        }
    }

    /// Says what an error of `whom` means: the server's own by its first word, the library's by its
    /// kind.
    pub(crate) fn of(error: FredError, whom: &str) -> Self {
        use Meaning::{NotExecuted, Other, Redirected, Refused, Replica, Uncached, Unknown, Wrong};

        let details = error.details().to_owned();
        let meaning = match by_word(&details) {
            Other => by_kind(error.kind()),
            meaning => meaning,
        };
        let (kind, heard) = match meaning {
            Uncached => return Self::NotCached,
            Refused | Redirected(_) => (ErrorKind::Unavailable, Heard::Server),
            Replica => (ErrorKind::Unavailable, Heard::Replica),
            NotExecuted => (ErrorKind::Unavailable, Heard::Silence),
            Wrong => (ErrorKind::Unexpected, Heard::Server),
            Unknown | Other => (ErrorKind::Undetermined, Heard::Silence),
        };
        let error = Error::new(kind, format!("{whom}: {details}")).with_source(error);
        match meaning {
            Redirected(redirect) => redirect(target(&details), error),
            _ => Self::Other(error, heard),
        }
    }
}

impl fmt::Display for NoReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotCached => f.write_str("the server does not have the script"),
            Self::Moved { error, .. } | Self::Ask { error, .. } | Self::Other(error, _) => {
                error.fmt(f)
            }
        }
    }
}

/// Returns what a script says of one key of several, in the server's words or Lua's.
pub(crate) fn of_one_key(words: &str) -> Error {
    let kind = match by_word(words) {
        Meaning::Refused | Meaning::Replica => ErrorKind::Unavailable,
        _ => ErrorKind::Unexpected,
    };
    Error::new(kind, format!("Redis: {}", words.trim_end()))
}

enum Meaning {
    /// The server does not have the script.
    Uncached,
    /// Another node has to be asked.
    Redirected(fn(String, Error) -> NoReply),
    /// The server says that it executed nothing.
    Refused,
    /// So does a replica.
    Replica,
    /// The library says that it sent nothing.
    NotExecuted,
    /// The script failed on what it found: a bug, or a foreign value.
    Wrong,
    /// It may have been executed.
    Unknown,
    /// The first word tells nothing.
    Other,
}

/// The table of what a server says, by the first word.
fn by_word(details: &str) -> Meaning {
    // Redis 6.2 wraps what a command in a script met with: `ERR Error running script (call to
    // f_...): @user_script:40: -OOM command not allowed ...`.
    let inner = details
        .strip_prefix("ERR Error running script")
        .and_then(|rest| rest.split_once(": -").map(|(_, inner)| inner));
    let said = inner.unwrap_or(details);
    match said.split_whitespace().next().unwrap_or_default() {
        "NOSCRIPT" => Meaning::Uncached,
        "MOVED" => Meaning::Redirected(|to, error| NoReply::Moved { to, error }),
        "ASK" => Meaning::Redirected(|to, error| NoReply::Ask { to, error }),
        "READONLY" | "MASTERDOWN" => Meaning::Replica,
        // It means one command, but the library fails all that are under way with it. Some of them
        // may have been executed: for other slots, or since the cluster was up again.
        "CLUSTERDOWN" => Meaning::Unknown,
        "BUSY" | "LOADING" | "MISCONF" | "NOAUTH" | "NOPERM" | "NOREPLICAS" | "OOM"
        | "TRYAGAIN" | "WRONGPASS" => Meaning::Refused,
        "ERR" | "WRONGTYPE" => Meaning::Wrong,
        _ => Meaning::Other,
    }
}

/// The table of what the library says.
fn by_kind(kind: &FredErrorKind) -> Meaning {
    match kind {
        FredErrorKind::Protocol | FredErrorKind::Parse => Meaning::Wrong,
        FredErrorKind::Auth
        | FredErrorKind::Backpressure
        | FredErrorKind::Config
        | FredErrorKind::Routing => Meaning::NotExecuted,
        // Timeout, IO and all that is not known to have stopped the command.
        _ => Meaning::Unknown,
    }
}

/// Returns the address in `MOVED 3999 127.0.0.1:6381`.
fn target(details: &str) -> String {
    details.split_whitespace().nth(2).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use limiter_core::ErrorKind::{Unavailable, Undetermined, Unexpected};

    use super::*;

    fn of(kind: FredErrorKind, details: &'static str) -> NoReply {
        NoReply::of(FredError::new(kind, details), "Redis")
    }

    #[test]
    fn a_servers_word_says_whether_anything_was_executed() {
        use Heard::{Replica, Server, Silence};

        for (details, kind, heard) in [
            ("BUSY Redis is busy running a script.", Unavailable, Server),
            ("CLUSTERDOWN The cluster is down", Undetermined, Silence),
            ("CLUSTERDOWN Hash slot not served", Undetermined, Silence),
            ("LOADING Redis is loading the dataset in memory", Unavailable, Server),
            ("MASTERDOWN Link with MASTER is down", Unavailable, Replica),
            ("MISCONF Redis is configured to save RDB snapshots", Unavailable, Server),
            ("NOAUTH Authentication required.", Unavailable, Server),
            ("NOPERM this user has no permissions", Unavailable, Server),
            ("NOREPLICAS Not enough good replicas to write.", Unavailable, Server),
            ("OOM command not allowed", Unavailable, Server),
            ("READONLY You can't write against a read only replica.", Unavailable, Replica),
            ("TRYAGAIN Multiple keys request during rehashing of slot", Unavailable, Server),
            ("WRONGPASS invalid username-password pair", Unavailable, Server),
            ("WRONGTYPE Operation against a key", Unexpected, Server),
            ("ERR user_script:1: Script attempted to access nonexistent", Unexpected, Server),
            (
                "ERR Error running script (call to f_1): @user_script:40: -OOM command not allowed",
                Unavailable,
                Server,
            ),
            (
                "ERR Error running script (call to f_1): @user_script:40: -READONLY You can't",
                Unavailable,
                Replica,
            ),
            ("EXOTIC words", Undetermined, Silence),
        ] {
            match of(FredErrorKind::Unknown, details) {
                NoReply::Other(error, found) => {
                    assert_eq!((error.kind(), found), (kind, heard), "{details}");
                    assert_eq!(error.to_string(), format!("Redis: {details}"));
                }
                failure => panic!("{details}: {failure:?}"),
            }
        }
    }

    #[test]
    fn what_a_script_says_of_one_key_is_its_own_or_the_servers() {
        for (words, kind) in [
            ("OOM command not allowed when used memory > 'maxmemory'.\r\n", Unavailable),
            ("READONLY You can't write against a read only replica.", Unavailable),
            ("WRONGTYPE Operation against a key", Unexpected),
            ("ERR index out of range", Unexpected),
            ("user_script:12: attempt to compare two nil values", Unexpected),
        ] {
            let error = of_one_key(words);
            assert_eq!(error.kind(), kind, "{words}");
            assert_eq!(error.to_string(), format!("Redis: {}", words.trim_end()));
        }
    }

    #[test]
    fn what_the_library_says_counts_where_the_server_said_nothing() {
        for (kind, expected) in [
            (FredErrorKind::Backpressure, Unavailable),
            (FredErrorKind::Routing, Unavailable),
            (FredErrorKind::Timeout, Undetermined),
            (FredErrorKind::IO, Undetermined),
            (FredErrorKind::Canceled, Undetermined),
            (FredErrorKind::Protocol, Unexpected),
        ] {
            let NoReply::Other(error, _) = of(kind.clone(), "Why.") else { panic!("{kind:?}") };
            assert_eq!(error.kind(), expected, "{kind:?}");
        }
    }

    #[test]
    fn redirections_name_the_node_to_ask() {
        let moved = of(FredErrorKind::Cluster, "MOVED 3999 127.0.0.1:6381");
        assert!(matches!(moved, NoReply::Moved { to, .. } if to == "127.0.0.1:6381"));
        let ask = of(FredErrorKind::Cluster, "ASK 3999 ::1:6381");
        assert!(matches!(ask, NoReply::Ask { to, .. } if to == "::1:6381"));
        assert!(matches!(of(FredErrorKind::Unknown, "NOSCRIPT No"), NoReply::NotCached));
    }
}
