//! What an error or a reply of the library `redis` means.

use redis::{ErrorKind, RedisError, Value};

use crate::{
    call::faults::{CallError, Fault, without_arguments},
    client::{ScriptReply, command},
};

/// Classifies an error reply by its first word, and any other error by its kind.
pub(super) fn classify(error: RedisError) -> CallError {
    let call_error = match error.code() {
        Some(code) => {
            let details = error.detail().unwrap_or_default();
            let reply = format!("{code} {details}");
            let call_error = CallError::of_error_reply("Redis", &reply);
            if without_arguments(&reply) != reply {
                // The library's error has the arguments.
                return call_error;
            }
            call_error
        }
        None => CallError::new(fault_of(&error), format!("Redis: {error}")),
    };
    call_error.with_source(error)
}

fn fault_of(error: &RedisError) -> Fault {
    match error.kind() {
        ErrorKind::Parse | ErrorKind::UnexpectedReturnType => Fault::InvalidReply,
        // While it connects.
        ErrorKind::AuthenticationFailed
        | ErrorKind::InvalidClientConfig
        | ErrorKind::RESP3NotSupported
        | ErrorKind::Client => Fault::NotSent,
        ErrorKind::Io if error.is_connection_refusal() => Fault::NotSent,
        // A time-out, a lost connection, and everything that may have happened after the write.
        _ => Fault::NoReply,
    }
}

/// Returns a reply of integers, texts, null, and arrays of them.
pub(super) fn read(value: Value) -> Result<ScriptReply, CallError> {
    Ok(match value {
        Value::Int(integer) => ScriptReply::Integer(integer),
        Value::Nil => ScriptReply::Nil,
        Value::Okay => ScriptReply::Text("OK".to_owned()),
        Value::SimpleString(text) => ScriptReply::Text(text),
        Value::BulkString(bytes) => ScriptReply::Text(String::from_utf8_lossy(&bytes).into_owned()),
        Value::Array(values) => {
            ScriptReply::Array(values.into_iter().map(read).collect::<Result<_, _>>()?)
        }
        Value::ServerError(error) => return Err(classify(error.into())),
        other => return Err(command::wrong_type(&other)),
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn errors_of_the_library_are_classified_by_their_kind() {
        for (error, fault) in [
            (RedisError::from((ErrorKind::Parse, "why")), Fault::InvalidReply),
            (RedisError::from((ErrorKind::AuthenticationFailed, "why")), Fault::NotSent),
            (io::Error::from(io::ErrorKind::ConnectionRefused).into(), Fault::NotSent),
            (io::Error::from(io::ErrorKind::BrokenPipe).into(), Fault::NoReply),
            (io::Error::from(io::ErrorKind::TimedOut).into(), Fault::NoReply),
        ] {
            assert_eq!(classify(error.clone()).fault(), fault, "{error}");
        }
    }

    #[test]
    fn integers_texts_null_and_arrays_are_replies() {
        let text = Value::BulkString(b"a".into());
        let value = Value::Array(vec![Value::Int(1), Value::Nil, Value::Okay, text]);
        let texts = ["OK", "a"].map(|text| ScriptReply::Text(text.to_owned()));
        let replies =
            [ScriptReply::Integer(1), ScriptReply::Nil].into_iter().chain(texts).collect();
        assert_eq!(read(value).unwrap(), ScriptReply::Array(replies));
        assert_eq!(read(Value::Double(0.5)).unwrap_err().fault(), Fault::InvalidReply);
    }
}
