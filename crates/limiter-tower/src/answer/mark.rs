//! Responses that our layers made, for the layers around them.
//!
//! An outer layer keeps its charge for a request that an inner one refuses: it does not settle it, counts no strike, and
//! leaves single-valued fields as they are. It asks for the mark in the request's extensions, so that a refusal is not
//! marked for nothing, which takes two allocations.

use http::{Extensions, Response};

use crate::head::Head;

/// In a request's extensions: an outer layer asks whether a layer made the response.
#[derive(Clone)]
struct Watched;

/// In a response's extensions: a layer made it.
#[derive(Clone)]
struct OfLayer;

/// Asks inner layers to mark their responses.
pub(crate) fn watch(extensions: &mut Extensions) {
    extensions.insert(Watched);
}

/// Returns whether an outer layer asks for marks.
pub(crate) fn is_watched(extensions: &Extensions) -> bool {
    extensions.get::<Watched>().is_some()
}

/// Marks a response as a layer's.
pub(super) fn mark<B>(response: &mut Response<B>) {
    response.extensions_mut().insert(OfLayer);
}

/// Marks a response as a layer's, if an outer layer asks for that.
pub(super) fn mark_if_watched<B>(head: Head<'_>, response: &mut Response<B>) {
    if is_watched(head.extensions) {
        mark(response);
    }
}

/// Returns whether an inner layer made the response.
pub(crate) fn is_of_layer(extensions: &Extensions) -> bool {
    extensions.get::<OfLayer>().is_some()
}
