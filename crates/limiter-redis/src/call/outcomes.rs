//! What the result of a call means for each of its requests.

use std::{slice, sync::Arc};

use super::{
    faults::{CallError, Outcome},
    request::{Operation, Request},
};
use crate::client::{ScriptReply, command::quoted};

/// Returns the outcome of each request, `None` if its script left it undecided.
pub(crate) fn outcomes<O: Operation>(
    result: Result<ScriptReply, CallError>,
    requests: &[Request<O>],
) -> Vec<Outcome<Option<O::Output>>> {
    let error = match result {
        Ok(reply) => match elements(&reply) {
            Some(elements) if elements.len() == requests.len() => {
                let outcomes = elements.iter().zip(requests).map(|(element, it)| read(element, it));
                return outcomes.map(|outcome| outcome.map_err(Arc::new)).collect();
            }
            _ => CallError::invalid_reply(&quoted(&reply)),
        },
        Err(error) => error,
    };
    let error = Arc::new(error);
    requests.iter().map(|_| Err(Arc::clone(&error))).collect()
}

/// Returns the replies to the requests of a call.
fn elements(reply: &ScriptReply) -> Option<&[ScriptReply]> {
    match reply {
        ScriptReply::Array(elements) => Some(elements),
        // To a refund or a reset.
        ScriptReply::Integer(_) => Some(slice::from_ref(reply)),
        ScriptReply::Text(_) | ScriptReply::Nil => None,
    }
}

/// Reads the reply to a request. A text is the error of a command.
fn read<O: Operation>(
    element: &ScriptReply,
    request: &Request<O>,
) -> Result<Option<O::Output>, CallError> {
    let Request { operation, handle, key, .. } = request;
    match element {
        ScriptReply::Nil if operation.may_be_undecided() => return Ok(None),
        ScriptReply::Text(words) => return Err(CallError::of_command("Redis", words, key)),
        _ => {}
    }
    let output = element.integers().and_then(|numbers| operation.read(&handle.plan, &numbers));
    output.map(Some).ok_or_else(|| CallError::invalid_reply(&quoted(element)))
}
