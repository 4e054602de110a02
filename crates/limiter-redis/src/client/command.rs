//! A script call as arguments of a command, and its reply.

use std::fmt::{self, Debug, Write};

use fred::types::Value;

use super::{ScriptCall, ScriptReply};
use crate::client::faults::{CallError, Fault};

/// A command and its arguments. A clone shares their bytes.
#[derive(Clone, Debug)]
pub(crate) struct Command {
    pub(crate) name: &'static str,
    pub(crate) arguments: Vec<Value>,
}

/// How deeply a reply may be nested. Those of the scripts are nested twice.
const MAX_DEPTH: usize = 4;

/// How many characters of a reply an error quotes.
const MAX_QUOTED: usize = 100;

impl From<&ScriptCall> for Command {
    fn from(call: &ScriptCall) -> Self {
        let arguments = call.args().into_iter().skip(1).map(Value::Bytes);
        Self { name: call.form.name(), arguments: arguments.collect() }
    }
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

impl Write for Excerpt {
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
        assert!(quoted(&"\u{e9}".repeat(1_000)).len() < 300);
    }
}
