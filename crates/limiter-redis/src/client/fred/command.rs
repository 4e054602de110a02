//! A command as the library sends it, and its reply.

use std::{fmt::Debug, time::Duration};

use fred::{
    clients::Client,
    error::Error as FredError,
    interfaces::ClientLike,
    types::{ClusterHash, CustomCommand, Value, config::Options},
};

use super::reply::hide_arguments;
use crate::client::{
    ScriptReply,
    faults::{CallError, Fault, quoted},
    node::Command,
};

/// How deeply a reply may be nested. Those of the scripts are nested twice.
const MAX_DEPTH: usize = 4;

/// Sends a command once, right after `first` on the same connection, and returns its reply.
pub(crate) async fn send(
    client: &Client,
    first: Option<&'static str>,
    Command { name, arguments, .. }: Command,
    within: Duration,
) -> Result<Value, FredError> {
    // The library's own time-out, because it does not send a command any more whose time is over.
    let options = Options { max_attempts: Some(1), timeout: Some(within), ..Options::default() };
    // Custom commands, because the library ignores the options for its own EVALSHA. The slot does not
    // matter, because each client has one server.
    let custom = |name| CustomCommand::new_static(name, ClusterHash::Random, false);
    let Some(first) = first else {
        let reply = client.with_options(&options).custom(custom(name), arguments).await;
        return reply.map_err(hide_arguments);
    };
    let pipeline = client.pipeline().with_options(&options);
    let _: Value = pipeline.custom(custom(first), Vec::<Value>::new()).await?;
    let _: Value = pipeline.custom(custom(name), arguments).await?;
    pipeline.last().await
}

/// Returns a reply of integers, texts, null, and arrays of them.
pub(crate) fn reply(value: Value) -> Result<ScriptReply, CallError> {
    reply_within(value, MAX_DEPTH)
}

fn reply_within(value: Value, depth: usize) -> Result<ScriptReply, CallError> {
    Ok(match value {
        Value::Integer(integer) => ScriptReply::Integer(integer),
        Value::String(text) => ScriptReply::Text(text.to_string()),
        Value::Bytes(bytes) => ScriptReply::Text(String::from_utf8_lossy(&bytes).into_owned()),
        Value::Null => ScriptReply::Nil,
        Value::Array(values) if depth > 0 => {
            let replies = values.into_iter().map(|value| reply_within(value, depth - 1));
            ScriptReply::Array(replies.collect::<Result<_, _>>()?)
        }
        other => return Err(wrong_type(&other)),
    })
}

/// Returns the error of a reply that has another type.
pub(crate) fn wrong_type(reply: &impl Debug) -> CallError {
    let quoted = quoted(reply);
    let message =
        format!("the script replied {quoted}: expected integers, texts, null or arrays of them");
    CallError::new(Fault::InvalidReply, message)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn integers_texts_null_and_arrays_are_replies() {
        let error = Value::Bytes(Bytes::from_static(b"OOM"));
        let ok = Value::from_static_str("OK");
        let value = Value::Array(vec![Value::Integer(1), Value::Null, error, ok]);
        let texts = ["OOM", "OK"].map(|text| ScriptReply::Text(text.to_owned()));
        let replies =
            [ScriptReply::Integer(1), ScriptReply::Nil].into_iter().chain(texts).collect();
        assert_eq!(reply(value).unwrap(), ScriptReply::Array(replies));
    }

    #[test]
    fn any_other_reply_is_quoted_in_short() {
        let nested = Value::Array(vec![Value::Integer(1), Value::Double(0.5)]);
        let error = reply(nested).unwrap_err();
        assert_eq!(error.fault(), Fault::InvalidReply);
        let message =
            "the script replied Double(0.5): expected integers, texts, null or arrays of them";
        assert_eq!(error.to_string(), message);
    }
}
