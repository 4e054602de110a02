//! What the result of a call means for each of its requests.

use std::{slice, sync::Arc};

use super::request::{Operation, Request};
use crate::client::{
    ScriptReply,
    faults::{CallError, Outcome},
};

/// Returns the outcome of each request. Errors of single keys contain the name of the server.
pub(crate) fn outcomes<O: Operation>(
    result: Result<ScriptReply, CallError>,
    requests: &[Request<O>],
    server: impl Fn() -> String,
) -> Vec<Outcome<O::Output>> {
    let error = match result {
        Ok(reply) => match elements(&reply, requests.len()) {
            Some(elements) => {
                let outcomes =
                    elements.iter().zip(requests).map(|(element, it)| read(element, it, &server));
                return outcomes.map(|outcome| outcome.map_err(Arc::new)).collect();
            }
            None => CallError::invalid_reply(&reply),
        },
        Err(error) => error,
    };
    let error = Arc::new(error);
    requests.iter().map(|_| Err(Arc::clone(&error))).collect()
}

/// Returns the replies to the requests of a call. To one request, it is the reply itself.
fn elements(reply: &ScriptReply, number: usize) -> Option<&[ScriptReply]> {
    match reply {
        _ if number == 1 => Some(slice::from_ref(reply)),
        ScriptReply::Array(elements) if elements.len() == number => Some(elements),
        _ => None,
    }
}

/// Reads the reply to a request. A text is the error of a command.
fn read<O: Operation>(
    element: &ScriptReply,
    request: &Request<O>,
    server: impl Fn() -> String,
) -> Result<O::Output, CallError> {
    let Request { operation, handle, .. } = request;
    if let ScriptReply::Text(words) = element {
        return Err(CallError::of_command(&server(), words));
    }
    let output = element.integers().and_then(|numbers| operation.read(&handle.plan, &numbers));
    output.ok_or_else(|| CallError::invalid_reply(element))
}
