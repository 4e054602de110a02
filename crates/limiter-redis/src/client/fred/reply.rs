//! What an error of `fred` means.

use fred::error::{Error as FredError, ErrorKind as FredErrorKind};

use crate::call::faults::{CallError, Fault, first_word};

/// Classifies an error of the library: an error reply by its first word, any other by its kind.
pub(super) fn classify(error: FredError, server: &str) -> CallError {
    let details = error.details().to_owned();
    let call_error = if is_error_reply(&details) {
        let replied = CallError::of_error_reply(server, &details);
        if first_word(&details) == "CLUSTERDOWN" {
            // The reply is for one command, but the library reports it for all commands under way on
            // the connection. Some of them may have been executed.
            replied.with_fault(Fault::NoReply)
        } else {
            replied
        }
    } else {
        CallError::new(fault_of(error.kind()), format!("{server}: {details}"))
    };
    call_error.with_source(error)
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
    use super::*;

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
            (FredErrorKind::Cluster, "CLUSTERDOWN The cluster is down", Fault::NoReply),
        ] {
            assert_eq!(fault(kind, details), expected, "{details}");
        }
        let error = classify(FredError::new(FredErrorKind::Unknown, "EXOTIC words"), "Redis");
        assert_eq!(error.to_string(), "Redis: EXOTIC words");
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
