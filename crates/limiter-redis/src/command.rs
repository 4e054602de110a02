//! A script call as the client library is given it, and its reply.

use std::sync::Arc;

use fred::{bytes::Bytes, types::Value};
use limiter_core::{Error, ErrorKind};

use crate::client::{ScriptCall, ScriptName};

/// A command and its arguments. A clone shares their bytes.
#[derive(Clone, Debug)]
pub(crate) struct Command {
    pub(crate) name: &'static str,
    pub(crate) arguments: Vec<Value>,
}

/// How many characters of a reply an error quotes.
const MAX_QUOTED: usize = 100;

impl From<ScriptCall> for Command {
    fn from(call: ScriptCall) -> Self {
        let (name, script) = match call.script {
            ScriptName::Digest(digest) => ("EVALSHA", digest),
            ScriptName::Source(source) => ("EVAL", source),
        };
        let mut arguments = Vec::with_capacity(4 + call.arguments.len());
        arguments.push(Value::Bytes(Bytes::from_owner(Text(script))));
        arguments.push(Value::Integer(1));
        arguments.push(Value::Bytes(call.key.into()));
        arguments.push(Value::Bytes(Bytes::from_owner(call.quotas)));
        arguments.extend(call.arguments.into_iter().map(Value::Integer));
        Self { name, arguments }
    }
}

/// Lends a script's text to the library, which then does not copy it.
struct Text(Arc<str>);

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// Returns the integers of a reply that consists of them.
pub(crate) fn integers(reply: &Value) -> Result<Vec<i64>, Error> {
    let integer = |value: &Value| match value {
        Value::Integer(integer) => Some(*integer),
        _ => None,
    };
    let integers = match reply {
        Value::Array(values) => values.iter().map(integer).collect(),
        value => integer(value).map(|integer| vec![integer]),
    };
    integers.ok_or_else(|| {
        let quoted = quoted(reply);
        let message = format!("the script replied with {quoted}: use an integer, or several");
        Error::new(ErrorKind::Unexpected, message)
    })
}

/// Returns a reply in short.
pub(crate) fn quoted(reply: &Value) -> String {
    let mut quoted = format!("{reply:?}");
    if let Some((end, _)) = quoted.char_indices().nth(MAX_QUOTED) {
        quoted.truncate(end);
        quoted.push_str("...");
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_integer_is_a_list_of_one() {
        assert_eq!(integers(&Value::Integer(-3)).unwrap(), [-3]);
        let several = Value::Array(vec![Value::Integer(1), Value::Integer(2)]);
        assert_eq!(integers(&several).unwrap(), [1, 2]);
        assert_eq!(integers(&Value::Array(vec![])).unwrap(), [0; 0]);
    }

    #[test]
    fn any_other_reply_is_quoted_in_short() {
        let error = integers(&Value::from_static_str("OK")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unexpected);
        let message = "the script replied with String(\"OK\"): use an integer, or several";
        assert_eq!(error.to_string(), message);
        let nested = Value::Array(vec![Value::Integer(1), Value::Null]);
        assert!(integers(&nested).is_err());
        let long = Value::String("\u{e9}".repeat(1_000).into());
        assert!(integers(&long).unwrap_err().to_string().len() < 300);
    }
}
