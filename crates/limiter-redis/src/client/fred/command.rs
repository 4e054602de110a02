//! A command as the library sends it, its reply, and what an error of the library means.

use std::{borrow::Cow, fmt::Debug, io::ErrorKind, time::Duration};

use fred::{
    clients::Client,
    error::{Error as FredError, ErrorKind as FredErrorKind},
    interfaces::ClientLike,
    types::{ClusterHash, CustomCommand, Value, config::Options},
};

use crate::client::{
    ScriptReply,
    faults::{CallError, Fault, first_word, quoted, without_arguments},
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
        return client.with_options(&options).custom(custom(name), arguments).await;
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

/// Classifies an error of the library: an error reply by its first word, any other by its kind.
pub(crate) fn classify(error: FredError, server: &str) -> CallError {
    let details = error.details().to_owned();
    let call_error = if is_error_reply(&details) {
        let replied = CallError::from_error_reply(server, &details);
        if first_word(&details) == "CLUSTERDOWN" {
            // The reply is for one command, but the library reports it for all commands under way on
            // the connection. Some of them may have been executed.
            replied.with_fault(Fault::ErrorReply)
        } else {
            replied
        }
    } else {
        CallError::new(fault_of(error.kind()), format!("{server}: {}", readable(&details)))
    };
    call_error.with_source(hide_arguments(error))
}

/// Returns an error reply without the arguments of a command that the server does not know, because those of `AUTH`
/// are a user and a password, and those of a script's call are keys.
fn hide_arguments(error: FredError) -> FredError {
    let hidden = without_arguments(error.details());
    if hidden.len() == error.details().len() {
        return error;
    }
    FredError::new(error.kind().clone(), hidden.to_owned())
}

/// Returns why a connection can't be made. `encrypted` is whether it uses TLS.
pub(crate) fn why_unreachable(error: &FredError, encrypted: bool) -> String {
    let why = readable(without_arguments(error.details()));
    // A server without TLS waits for the rest of a command, or replies with text.
    let may_be_plain =
        *error.kind() == FredErrorKind::Timeout || why.contains("InvalidContentType");
    if encrypted && may_be_plain {
        return format!("{why} If the port has no TLS, use redis:// instead of rediss://");
    }
    let explained = CERTIFICATES.iter().find(|(words, _)| why.contains(words));
    match explained {
        Some((words, sentence)) => format!("{sentence} ({words})"),
        None => why.into_owned(),
    }
}

/// What the faults of a server's certificate mean, by the words of the library `rustls-webpki`.
const CERTIFICATES: [(&str, &str); 2] = [
    (
        "CaUsedAsEndEntity",
        "the server's certificate is self-signed and marked as an authority's, as `openssl req -x509` \
         makes it. Sign the server's certificate with it, or make it with \
         `-addext basicConstraints=CA:FALSE`",
    ),
    (
        "InvalidCertificate(UnknownIssuer)",
        "no trusted authority has signed the server's certificate. Trust the one that did by \
         `ConnectOptions::with_root_certificates`",
    ),
];

/// Returns the message of an I/O error, which the library formats for debugging, such as
/// `Os { code: 111, kind: ConnectionRefused, message: "Connection refused" }`.
fn readable(details: &str) -> Cow<'_, str> {
    let within = |begin, end| details.strip_prefix(begin)?.strip_suffix(end);
    let kinds = [
        ErrorKind::BrokenPipe,
        ErrorKind::ConnectionAborted,
        ErrorKind::ConnectionRefused,
        ErrorKind::ConnectionReset,
        ErrorKind::NotConnected,
        ErrorKind::TimedOut,
        ErrorKind::UnexpectedEof,
    ];
    if let Some((_, message)) = within("Os { ", "\" }").and_then(|os| os.split_once("message: \""))
    {
        return message.into();
    }
    if let Some((_, error)) = within("Custom { ", " }").and_then(|own| own.split_once("error: ")) {
        return error.trim_matches('"').into();
    }
    let kind = within("Kind(", ")");
    let kind =
        kinds.into_iter().find(|known| kind.is_some_and(|kind| format!("{known:?}") == kind));
    kind.map_or(details.into(), |kind| kind.to_string().into())
}

/// Returns whether the text is a server's: its error replies begin with a word in capitals, and the
/// library's own messages are sentences.
fn is_error_reply(details: &str) -> bool {
    let word = first_word(details);
    let is_capital = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    word.len() > 1 && word.bytes().all(is_capital)
}

fn fault_of(kind: &FredErrorKind) -> Fault {
    match kind {
        FredErrorKind::Protocol | FredErrorKind::Parse => Fault::InvalidReply,
        FredErrorKind::Auth
        | FredErrorKind::Backpressure
        | FredErrorKind::Config
        | FredErrorKind::Routing => Fault::NotSent,
        // A reply that is an error with words in lower case.
        FredErrorKind::InvalidArgument | FredErrorKind::InvalidCommand => Fault::ErrorReply,
        // A time-out, a lost connection, and everything that may have happened after the write.
        _ => Fault::NoReply,
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
    }

    fn fault(kind: FredErrorKind, details: &'static str) -> Fault {
        classify(FredError::new(kind, details), "Redis").fault()
    }

    #[test]
    fn error_replies_are_classified_by_their_words() {
        for (kind, details, expected) in [
            (FredErrorKind::Unknown, "BUSY Redis is busy running a script.", Fault::NotExecuted),
            (FredErrorKind::Unknown, "NOSCRIPT No matching script", Fault::NoScript),
            (FredErrorKind::Unknown, "EXOTIC words", Fault::ErrorReply),
            (FredErrorKind::InvalidArgument, "WRONGTYPE Operation against", Fault::ErrorReply),
            (FredErrorKind::Cluster, "MOVED 3999 127.0.0.1:6381", Fault::Redirected),
            (FredErrorKind::Cluster, "CLUSTERDOWN The cluster is down", Fault::ErrorReply),
        ] {
            assert_eq!(fault(kind, details), expected, "{details}");
        }
        let error = classify(FredError::new(FredErrorKind::Unknown, "EXOTIC words"), "Redis");
        assert_eq!(error.to_string(), "Redis: EXOTIC words");
    }

    /// Those of `AUTH` are a password, and those of a script's call are keys.
    #[test]
    fn neither_an_error_nor_its_source_has_arguments_of_an_unknown_command() {
        let details =
            "ERR unknown command 'EVALSHA', with args beginning with: 'digest' '1' 'alice'";
        let error = classify(FredError::new(FredErrorKind::Unknown, details), "Redis");
        let source = std::error::Error::source(&error).unwrap();
        for text in [error.to_string(), source.to_string(), format!("{error:?}")] {
            assert!(text.contains("EVALSHA") && !text.contains("alice"), "{text}");
        }
    }

    #[test]
    fn errors_of_the_system_are_readable() {
        use std::io::Error;

        for (error, expected) in [
            (Error::from_raw_os_error(2), "No such file or directory"),
            (Error::from(ErrorKind::UnexpectedEof), "unexpected end of file"),
            (Error::other("why"), "why"),
        ] {
            let error = FredError::from(error);
            assert_eq!(why_unreachable(&error, false), expected);
            assert_eq!(classify(error, "Redis").to_string(), format!("Redis: {expected}"));
        }
        let other = FredError::new(FredErrorKind::Unknown, "Kind(Strange)");
        assert_eq!(why_unreachable(&other, false), "Kind(Strange)");
    }

    #[test]
    fn errors_of_the_library_are_classified_by_their_kind() {
        for (kind, expected) in [
            (FredErrorKind::Backpressure, Fault::NotSent),
            (FredErrorKind::Routing, Fault::NotSent),
            (FredErrorKind::Timeout, Fault::NoReply),
            (FredErrorKind::IO, Fault::NoReply),
            (FredErrorKind::Canceled, Fault::NoReply),
            (FredErrorKind::Unknown, Fault::NoReply),
            (FredErrorKind::Protocol, Fault::InvalidReply),
        ] {
            assert_eq!(fault(kind.clone(), "Why."), expected, "{kind:?}");
        }
    }
}
