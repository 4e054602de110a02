//! What replies of the server mean to a client.

use limiter_double::Reply;
use limiter_redis::{CallError, ScriptReply};

/// What a call ends with.
pub(super) type Outcome = Result<ScriptReply, CallError>;

/// Returns what a reply means to a client.
pub(super) fn outcome(reply: Reply) -> Outcome {
    Ok(match reply {
        Reply::Integer(number) => ScriptReply::Integer(number),
        Reply::Status(text) => ScriptReply::Text(text),
        Reply::Bulk(text) => ScriptReply::Text(String::from_utf8_lossy(&text).into_owned()),
        Reply::Nil => ScriptReply::Nil,
        Reply::Array(replies) => {
            ScriptReply::Array(replies.into_iter().map(outcome).collect::<Result<_, _>>()?)
        }
        Reply::Error(text) => return Err(CallError::from_error_reply("the server", &text)),
    })
}
