//! The body of a response: the inner service's, or an answer in its place.

use std::{
    error::Error,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::in_flight::{Hold, PermitLost};

/// Any error, as axum, hyper and tonic take it from a body.
type BoxError = Box<dyn Error + Send + Sync>;

pin_project! {
    /// The body of a response of [`RateLimit`](crate::service::RateLimit).
    ///
    /// Its errors are the inner body's, and [`PermitLost`] if the layer has a [strict](crate::InFlightRule::strict) limit
    /// on requests in flight.
    #[derive(Debug)]
    pub struct ResponseBody<B> {
        #[pin]
        content: Content<B>,
    }
}

pin_project! {
    #[project = ContentProjection]
    #[derive(Debug)]
    enum Content<B> {
        Inner { #[pin] body: B },
        // In a box, because larger bodies make a response too large to be moved in registers: 10 ns a request with
        // axum's (`cargo xtask bench layer`). One variant for all others, so that it fits into the niche of a pointer.
        Other { other: Pin<Box<Other<B>>> },
    }
}

pin_project! {
    #[project = OtherProjection]
    #[derive(Debug)]
    enum Other<B> {
        // Empty once it was read.
        Refusal { bytes: Bytes },
        // The body is dropped before its permits are given back. `None` once it has ended.
        Held { #[pin] body: B, hold: Option<Hold> },
        // It lost its permit, and its error was returned.
        Lost,
    }
}

impl<B> ResponseBody<B> {
    /// Returns the inner service's body, which holds permits until it has ended or is dropped, if there are any.
    pub(crate) fn new(body: B, hold: Option<Hold>) -> Self {
        match hold {
            None => Self { content: Content::Inner { body } },
            Some(_) => Self::other(Other::Held { body, hold }),
        }
    }

    pub(crate) fn answer(bytes: Bytes) -> Self {
        Self::other(Other::Refusal { bytes })
    }

    fn other(other: Other<B>) -> Self {
        Self { content: Content::Other { other: Box::pin(other) } }
    }
}

impl<B: Default> Default for ResponseBody<B> {
    fn default() -> Self {
        Self::new(B::default(), None)
    }
}

impl<B> Body for ResponseBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.project().content.project() {
            ContentProjection::Inner { body } => {
                body.poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(Into::into)))
            }
            ContentProjection::Other { other } => other.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Inner { body } => body.is_end_stream(),
            Content::Other { other } => match &**other {
                Other::Refusal { bytes } => bytes.is_empty(),
                Other::Held { body, .. } => body.is_end_stream(),
                Other::Lost => false,
            },
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Inner { body } => body.size_hint(),
            Content::Other { other } => match &**other {
                Other::Refusal { bytes } => SizeHint::with_exact(bytes.len() as u64),
                Other::Held { body, .. } => body.size_hint(),
                Other::Lost => SizeHint::default(),
            },
        }
    }
}

impl<B> Other<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let (mut body, hold) = match self.as_mut().project() {
            OtherProjection::Held { body, hold } => (body, hold),
            OtherProjection::Refusal { bytes } if bytes.is_empty() => return Poll::Ready(None),
            OtherProjection::Refusal { bytes } => {
                return Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes)))));
            }
            OtherProjection::Lost => return Poll::Ready(None),
        };
        // Before the inner body, because the process may have been stopped since it was last polled.
        if hold.as_mut().is_some_and(|hold| hold.must_end(cx)) {
            self.set(Self::Lost);
            return Poll::Ready(Some(Err(PermitLost.into())));
        }
        let frame = ready!(body.as_mut().poll_frame(cx));
        let is_last = match &frame {
            Some(Ok(frame)) => frame.is_trailers() || body.is_end_stream(),
            Some(Err(_)) | None => true,
        };
        if is_last {
            *hold = None;
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }
}
