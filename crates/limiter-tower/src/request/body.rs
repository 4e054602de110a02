//! The body of a refusal, in the type of the inner service's body.

use bytes::Bytes;
use http_body_util::{
    BodyExt, Either, Empty, Full,
    combinators::{BoxBody, UnsyncBoxBody},
};

/// A body that can be that of a refusal, so that a [`RateLimitLayer`](crate::RateLimitLayer) leaves the type of the inner
/// service's responses as it is.
///
/// It is implemented for `Full`, `Empty` (which drops the text), `BoxBody`, `UnsyncBoxBody` and `Either` of
/// `http-body-util`, and with the features `axum` and `tonic` for their bodies. For others, call
/// [`any_body`](crate::RateLimitLayer::any_body) on the layer.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the body of a refusal",
    note = "call `any_body()` on the `RateLimitLayer`: the responses' body is then `Either<{Self}, Full<Bytes>>`",
    note = "axum's and tonic's bodies need limiter-tower's feature `axum` or `tonic`"
)]
pub trait FromRefusal {
    /// Returns the body that has these bytes, which may be none.
    fn from_refusal(bytes: Bytes) -> Self;
}

impl FromRefusal for Full<Bytes> {
    fn from_refusal(bytes: Bytes) -> Self {
        Self::new(bytes)
    }
}

impl FromRefusal for Empty<Bytes> {
    fn from_refusal(_: Bytes) -> Self {
        Self::new()
    }
}

impl<E: 'static> FromRefusal for BoxBody<Bytes, E> {
    fn from_refusal(bytes: Bytes) -> Self {
        Self::new(Full::new(bytes).map_err(|never| match never {}))
    }
}

impl<E: 'static> FromRefusal for UnsyncBoxBody<Bytes, E> {
    fn from_refusal(bytes: Bytes) -> Self {
        Self::new(Full::new(bytes).map_err(|never| match never {}))
    }
}

impl<L, R: FromRefusal> FromRefusal for Either<L, R> {
    fn from_refusal(bytes: Bytes) -> Self {
        Self::Right(R::from_refusal(bytes))
    }
}

#[cfg(feature = "axum")]
impl FromRefusal for axum::body::Body {
    fn from_refusal(bytes: Bytes) -> Self {
        bytes.into()
    }
}

#[cfg(feature = "tonic")]
impl FromRefusal for tonic::body::Body {
    fn from_refusal(bytes: Bytes) -> Self {
        Self::new(Full::new(bytes))
    }
}
