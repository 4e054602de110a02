//! What a layer decides on, and what is done around the inner service.

use std::{future::Future, pin::Pin, task::Context};

use bytes::Bytes;
use http::{Extensions, Response, request::Parts};

use crate::head::Head;

/// What becomes of a request.
#[derive(Debug)]
pub enum Verdict<A> {
    /// It is forwarded.
    Forward(A),
    /// It is answered in place of the inner service.
    Answer(Response<Bytes>),
}

/// A decision that is not known at once. It owns the request's head while it borrows it for the rules.
pub(crate) type Deciding<A> = Pin<Box<dyn Future<Output = (Parts, Verdict<A>)> + Send>>;

/// Decides on requests to an inner service.
pub trait Gate {
    /// What is to be done with an admitted request and its response.
    type After: After;

    /// Decides on a request if that is possible at once.
    fn decide_now(&self, head: Head<'_>) -> Option<Verdict<Self::After>>;

    /// Decides on a request.
    fn decide(&self, parts: Parts) -> Deciding<Self::After>;
}

/// A gate whose responses have a body, for inner bodies `R`.
pub trait Respond<R>: Gate {
    /// The body of the responses.
    type Body;

    /// Does what is to be done with the inner service's response.
    fn leave(after: &mut Self::After, response: Response<R>) -> Response<Self::Body>;

    /// Returns an answer in place of the inner service's.
    fn answer(response: Response<Bytes>) -> Response<Self::Body>;
}

/// What is to be done with an admitted request while the inner service has it.
pub trait After {
    /// Adds to the request's extensions what the handler may read.
    fn enter(&mut self, extensions: &mut Extensions);

    /// Gives back what is not given back when this is dropped, because the inner service has failed to become ready.
    fn undo(&self) {}

    /// Returns the answer in place of the inner service's, if the request must not go on.
    fn ended(&mut self, _: &mut Context<'_>) -> Option<Response<Bytes>> {
        None
    }
}
