//! The table of faults: what a call without a usable reply says about its execution, and what to do.

use std::{
    borrow::Cow,
    error::Error as StdError,
    fmt::{self, Debug, Write as _},
    sync::Arc,
};

use limiter_core::{Error, ErrorKind};

/// Why a call returned no usable reply.
///
/// | fault | executed? | sent again? | counts as a failure of the server? |
/// |---|---|---|---|
/// | [`NoScript`](Self::NoScript) | no | once, by its source | no |
/// | [`NotExecuted`](Self::NotExecuted), [`NotPrimary`](Self::NotPrimary), [`Redirected`](Self::Redirected) | no | once, inside the deadline | no: it answers |
/// | [`NotSent`](Self::NotSent) | no | once, inside the deadline | yes |
/// | [`CrossSlot`](Self::CrossSlot) | no | key by key | no |
/// | [`NoTime`](Self::NoTime) | no | no | no |
/// | [`NoReply`](Self::NoReply) | unknown | never | yes, if it lasts as long as the [silence](crate::CircuitBreaker) that opens the breaker |
/// | [`ErrorReply`](Self::ErrorReply) | unknown | never | no: it answers |
/// | [`InvalidReply`](Self::InvalidReply) | unknown | never | yes, and its connection is replaced |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The server does not have the script (`NOSCRIPT`).
    NoScript,
    /// The server replied that it did not execute the call, for example `BUSY` or `OOM`.
    NotExecuted,
    /// The server replied that it can't serve as the primary (`READONLY`, `MASTERDOWN`, `LOADING`, `CLUSTERDOWN`). The
    /// connection looks for the primary again, at most once in 100 ms.
    NotPrimary,
    /// Another node of the cluster serves the key (`MOVED`, `ASK`).
    Redirected,
    /// The call was not sent: there is no connection, or too many calls wait for it.
    NotSent,
    /// The keys of a batch belong to several slots of a cluster (`CROSSSLOT`).
    CrossSlot,
    /// No time was left to send the call.
    NoTime,
    /// The call was sent, and no reply came in time.
    NoReply,
    /// The server replied with any other error.
    ErrorReply,
    /// The reply is not RESP, or has a type that no script of this library returns.
    InvalidReply,
}

impl Fault {
    /// Returns the fault that a server's error reply stands for, by its first word.
    ///
    /// ```
    /// use limiter_redis::Fault;
    ///
    /// assert_eq!(Fault::from_error_reply("LOADING Redis is loading"), Fault::NotPrimary);
    /// assert_eq!(Fault::from_error_reply("WRONGTYPE Operation against"), Fault::ErrorReply);
    /// ```
    #[must_use]
    pub fn from_error_reply(reply: &str) -> Self {
        // Redis 6.2 wraps the error of a command in a script: `ERR Error running script (call to
        // f_...): @user_script:40: -OOM command not allowed ...`, and for `pcall` without the part before `@`.
        let inner = ["ERR Error running script", "@user_script"]
            .iter()
            .find_map(|wrapper| reply.strip_prefix(wrapper)?.split_once(": -"))
            .map(|(_, inner)| inner);
        // A server replies all of these before the first write of a script. A denied command of a script, which may come
        // after a write, is never replied as NOPERM.
        match first_word(inner.unwrap_or(reply)) {
            "ERR" if reply.starts_with("ERR unknown command") => Self::NotExecuted,
            "NOSCRIPT" => Self::NoScript,
            "BUSY" | "MISCONF" | "NOAUTH" | "NOPERM" | "NOREPLICAS" | "OOM" | "TRYAGAIN"
            | "WRONGPASS" => Self::NotExecuted,
            "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "READONLY" => Self::NotPrimary,
            "MOVED" | "ASK" => Self::Redirected,
            "CROSSSLOT" => Self::CrossSlot,
            _ => Self::ErrorReply,
        }
    }

    /// Returns what the fault means to a caller.
    #[must_use]
    pub const fn kind(self) -> ErrorKind {
        self.meaning().0
    }

    /// Returns whether the call may be sent once more inside its deadline.
    #[must_use]
    pub const fn may_be_sent_again(self) -> bool {
        self.meaning().1
    }

    /// Returns what the fault says about the server, or `None` if it says nothing.
    pub(crate) const fn server_failed(self) -> Option<bool> {
        self.meaning().2
    }

    /// Returns the fault's row of the table.
    const fn meaning(self) -> (ErrorKind, bool, Option<bool>) {
        use ErrorKind::{Unavailable, Undetermined, Unexpected};
        match self {
            Self::NoScript | Self::CrossSlot => (Unavailable, false, Some(false)),
            Self::NotExecuted | Self::NotPrimary | Self::Redirected => {
                (Unavailable, true, Some(false))
            }
            Self::NotSent => (Unavailable, true, Some(true)),
            Self::NoTime => (Unavailable, false, None),
            Self::NoReply => (Undetermined, false, Some(true)),
            Self::ErrorReply => (Unexpected, false, Some(false)),
            Self::InvalidReply => (Unexpected, false, Some(true)),
        }
    }
}

/// The error of a call: a [`Fault`] and a message.
///
/// ```
/// use limiter_redis::{CallError, Fault};
///
/// let error = CallError::from_error_reply("Redis", "OOM command not allowed");
/// assert_eq!(error.fault(), Fault::NotExecuted);
/// assert_eq!(error.to_string(), "Redis: OOM command not allowed");
/// ```
#[derive(Debug)]
pub struct CallError {
    fault: Fault,
    message: Cow<'static, str>,
    source: Option<Box<dyn StdError + Send + Sync>>,
    /// The address in `MOVED` and `ASK`.
    pub(crate) redirect: Option<Redirect>,
    /// The number and the name of the server that was called, if that is not the one that has the key.
    pub(crate) called: Option<(usize, Arc<str>)>,
}

/// The node that a cluster names in `MOVED` or `ASK`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Redirect {
    /// Such as `127.0.0.1:6381`, or with an empty host.
    pub(crate) to: String,
    /// Whether the call has to follow `ASKING`.
    pub(crate) is_asking: bool,
}

impl CallError {
    /// Returns the error of a call with `fault`.
    pub fn new(fault: Fault, message: impl Into<Cow<'static, str>>) -> Self {
        Self { fault, message: message.into(), source: None, redirect: None, called: None }
    }

    /// Returns the error for a server's error reply, classified by [`Fault::from_error_reply`].
    #[must_use]
    pub fn from_error_reply(server: &str, reply: &str) -> Self {
        let reply = without_arguments(reply.trim_end());
        let words: Vec<&str> = reply.split_whitespace().take(3).collect();
        // `MOVED 3999 127.0.0.1:6381`.
        let redirect = match words.as_slice() {
            [word @ ("MOVED" | "ASK"), _, to] => {
                Some(Redirect { to: (*to).to_owned(), is_asking: *word == "ASK" })
            }
            _ => None,
        };
        let fault = Fault::from_error_reply(reply);
        Self { redirect, ..Self::new(fault, format!("{server}: {reply}")) }
    }

    /// Returns the error that a script replies for a key: a command, and what it replied.
    pub(crate) fn of_command(server: &str, words: &str) -> Self {
        let words = words.trim_end();
        let (_, reply) = words.split_once(": ").unwrap_or_default();
        let fault = match Fault::from_error_reply(reply) {
            fault @ (Fault::NotExecuted | Fault::NotPrimary) => fault,
            _ => Fault::ErrorReply,
        };
        Self::new(fault, format!("{server}: {words}"))
    }

    /// Returns the error of a reply that no script of this library returns.
    pub(crate) fn invalid_reply(reply: &impl Debug) -> Self {
        let message = format!("the script replied {}, which is not a decision", quoted(reply));
        Self::new(Fault::InvalidReply, message)
    }

    /// Names the command of the script that the server refused, which most errors don't.
    pub(crate) fn in_script(mut self, source: &[u8]) -> Self {
        let line = self.message.split_once("@user_script:").map(|(_, rest)| rest);
        let digits = line.and_then(|rest| rest.split(|digit: char| !digit.is_ascii_digit()).next());
        let line = digits.and_then(|digits| digits.parse().ok());
        if let Some(command) = line.and_then(|line| command_at(source, line)) {
            self.message = format!("{}: {command}", self.message).into();
        }
        self
    }

    /// Adds the underlying error.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Replaces the fault, where the client library reports more or less than the reply's words.
    #[must_use]
    pub fn with_fault(self, fault: Fault) -> Self {
        Self { fault, ..self }
    }

    /// Names the server that was called, if that is not the one that has the key.
    pub(crate) fn by(self, called: Option<(usize, Arc<str>)>) -> Self {
        Self { called, ..self }
    }

    /// Returns why a call to the store failed: the source of the error of an operation, or of an
    /// [`Event`](crate::Event). Returns `None` if the error has another cause.
    ///
    /// ```
    /// use limiter_core::Error;
    /// use limiter_redis::{CallError, Fault};
    ///
    /// fn is_late(error: &Error) -> bool {
    ///     CallError::of(error).is_some_and(|call| call.fault() == Fault::NoReply)
    /// }
    /// ```
    #[must_use]
    pub fn of(error: &Error) -> Option<&Self> {
        error.source()?.downcast_ref::<Arc<Self>>().map(|error| &**error)
    }

    /// Returns the fault.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        self.fault
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for CallError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// The result of a call, whose error may be that of several callers.
pub(crate) type Outcome<T> = Result<T, Arc<CallError>>;

/// Returns the error for a caller, with the policy's name.
pub(crate) fn named(policy: &str, error: Arc<CallError>) -> Error {
    let message = format!("policy {policy:?}: {error}");
    Error::new(error.fault().kind(), message).with_source(error)
}

/// Returns the error for an observer, which knows the policy.
pub(crate) fn reported(error: &Arc<CallError>) -> Error {
    Error::new(error.fault().kind(), error.to_string()).with_source(Arc::clone(error))
}

/// Returns a server's error reply without the arguments of a command that it does not know, because those of
/// `AUTH` are a user and a password.
pub(crate) fn without_arguments(reply: &str) -> &str {
    reply.split_once(", with args beginning with").map_or(reply, |(error, _)| error)
}

/// Returns the command that a script calls in a line, counted from 1.
fn command_at(source: &[u8], line: usize) -> Option<&str> {
    let source = str::from_utf8(source).ok()?;
    let (_, call) = source.lines().nth(line.checked_sub(1)?)?.split_once("call('")?;
    call.split_once('\'').map(|(command, _)| command)
}

/// Returns the first word of a server's error reply.
pub(crate) fn first_word(reply: &str) -> &str {
    reply.split_whitespace().next().unwrap_or_default()
}

/// How many characters of a reply an error quotes.
const MAX_QUOTED: usize = 100;

/// Returns a reply for a message, cut after [`MAX_QUOTED`] characters.
pub(crate) fn quoted(reply: &impl Debug) -> String {
    let mut excerpt = Excerpt { text: String::new(), left: MAX_QUOTED };
    if write!(excerpt, "{reply:?}").is_err() {
        excerpt.text.push_str("...");
    }
    excerpt.text
}

/// Ends the formatting of a reply that is long, or nested deeply.
struct Excerpt {
    text: String,
    left: usize,
}

impl fmt::Write for Excerpt {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            self.left = self.left.checked_sub(1).ok_or(fmt::Error)?;
            self.text.push(character);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use limiter_core::ErrorKind::{Unavailable, Undetermined, Unexpected};

    use super::*;

    /// The table of the docs, one row a fault.
    #[test]
    fn each_fault_has_one_meaning() {
        for (fault, kind, again, server_failed) in [
            (Fault::NoScript, Unavailable, false, Some(false)),
            (Fault::NotExecuted, Unavailable, true, Some(false)),
            (Fault::NotPrimary, Unavailable, true, Some(false)),
            (Fault::Redirected, Unavailable, true, Some(false)),
            (Fault::NotSent, Unavailable, true, Some(true)),
            (Fault::CrossSlot, Unavailable, false, Some(false)),
            (Fault::NoTime, Unavailable, false, None),
            (Fault::NoReply, Undetermined, false, Some(true)),
            (Fault::ErrorReply, Unexpected, false, Some(false)),
            (Fault::InvalidReply, Unexpected, false, Some(true)),
        ] {
            assert_eq!(fault.kind(), kind, "{fault:?}");
            assert_eq!(fault.may_be_sent_again(), again, "{fault:?}");
            assert_eq!(fault.server_failed(), server_failed, "{fault:?}");
        }
    }

    #[test]
    fn the_first_word_of_an_error_reply_selects_the_fault() {
        let wrapped = "ERR Error running script (call to f_1): @user_script:40: ";
        for (reply, fault) in [
            ("NOSCRIPT No matching script.", Fault::NoScript),
            ("BUSY Redis is busy running a script.", Fault::NotExecuted),
            ("CLUSTERDOWN Hash slot not served", Fault::NotPrimary),
            ("LOADING Redis is loading the dataset in memory", Fault::NotPrimary),
            ("MISCONF Redis is configured to save RDB snapshots", Fault::NotExecuted),
            ("NOAUTH Authentication required.", Fault::NotExecuted),
            ("NOPERM this user has no permissions", Fault::NotExecuted),
            ("NOREPLICAS Not enough good replicas to write.", Fault::NotExecuted),
            ("OOM command not allowed when used memory > 'maxmemory'.\r\n", Fault::NotExecuted),
            ("TRYAGAIN Multiple keys request during rehashing", Fault::NotExecuted),
            ("WRONGPASS invalid username-password pair", Fault::NotExecuted),
            ("READONLY You can't write against a read only replica.", Fault::NotPrimary),
            ("MASTERDOWN Link with MASTER is down", Fault::NotPrimary),
            ("ERR unknown command 'EVALSHA'", Fault::NotExecuted),
            ("MOVED 3999 127.0.0.1:6381", Fault::Redirected),
            ("ASK 3999 ::1:6381", Fault::Redirected),
            ("CROSSSLOT Keys in request don't hash to the same slot", Fault::CrossSlot),
            ("WRONGTYPE Operation against a key", Fault::ErrorReply),
            ("ERR ACL failure in script: User alice has no permissions", Fault::ErrorReply),
            ("ERR user_script:1: Script attempted to access nonexistent", Fault::ErrorReply),
            ("user_script:12: attempt to compare two nil values", Fault::ErrorReply),
            ("EXOTIC words", Fault::ErrorReply),
            ("", Fault::ErrorReply),
        ] {
            assert_eq!(Fault::from_error_reply(reply), fault, "{reply}");
            let error = CallError::from_error_reply("Redis", reply);
            assert_eq!(error.to_string(), format!("Redis: {}", reply.trim_end()));
        }
        let inner = "@user_script: 40: -OOM command not allowed";
        assert_eq!(Fault::from_error_reply(inner), Fault::NotExecuted);
        for (inner, fault) in [
            ("-OOM command not allowed", Fault::NotExecuted),
            ("-READONLY You can't", Fault::NotPrimary),
        ] {
            assert_eq!(Fault::from_error_reply(&format!("{wrapped}{inner}")), fault, "{inner}");
        }
    }

    #[test]
    fn redirections_name_the_node() {
        for (reply, to, is_asking) in [
            ("MOVED 3999 127.0.0.1:6381", "127.0.0.1:6381", false),
            ("ASK 3999 ::1:6381", "::1:6381", true),
        ] {
            let redirect = CallError::from_error_reply("Redis", reply).redirect;
            assert_eq!(redirect, Some(Redirect { to: to.to_owned(), is_asking }));
        }
    }

    /// Redis 6.2 ends the error of a command of a script with a line break, which cut a line of the log in two.
    #[test]
    fn the_error_of_a_command_is_one_line() {
        let words =
            "HSET: @user_script: 41: -OOM command not allowed when used memory > 'maxmemory'.";
        let error = CallError::of_command("Redis", &format!("{words}\r\n"));
        assert_eq!(
            (error.fault(), error.to_string()),
            (Fault::NotExecuted, format!("Redis: {words}"))
        );
    }
}
