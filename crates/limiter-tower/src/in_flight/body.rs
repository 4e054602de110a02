//! The body of a response, which holds permits until it has ended.

use std::{
    error::Error,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::{PermitLost, permits::Permits, watch::Hold};

/// Any error, as axum, hyper and tonic take it from a body.
type BoxError = Box<dyn Error + Send + Sync>;

/// A last piece that is longer than this holds the permits until it was written. A server buffers a shorter one, also for a
/// client that does not read, and the permits are given back.
const SHORT: usize = 16 * 1024;

pin_project! {
    /// The body of a response of an [`InFlightLayer`](crate::InFlightLayer).
    ///
    /// It holds the request's permits until it has ended, or is dropped. The last piece of a body that knows its end holds
    /// them until the server has written it, if it is longer than 16 KiB.
    ///
    /// Its errors are the inner body's, and [`PermitLost`] if the layer has a [strict](crate::InFlightRule::strict) limit.
    #[derive(Debug)]
    pub struct HeldBody<B> {
        #[pin]
        content: Content<B>,
    }
}

pin_project! {
    #[project = ContentProjection]
    #[derive(Debug)]
    enum Content<B> {
        // The body is dropped before its permits are given back. `None` once it has ended, or if there are none. In a box,
        // because most responses have permits for a short time only.
        Inner { #[pin] body: B, hold: Option<Box<Hold>> },
        // Empty once it was read.
        Refusal { bytes: Bytes },
        // It lost its permit, and its error was returned.
        Lost,
    }
}

impl<B> HeldBody<B> {
    /// Returns the inner service's body, which holds permits, if there are any.
    pub(super) fn new(body: B, hold: Option<Hold>) -> Self {
        Self { content: Content::Inner { body, hold: hold.map(Box::new) } }
    }

    pub(super) const fn refusal(bytes: Bytes) -> Self {
        Self { content: Content::Refusal { bytes } }
    }
}

impl<B: Default> Default for HeldBody<B> {
    fn default() -> Self {
        Self::new(B::default(), None)
    }
}

impl<B> Body for HeldBody<B>
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
        let mut content = self.project().content;
        let (mut body, hold) = match content.as_mut().project() {
            ContentProjection::Inner { body, hold } => (body, hold),
            ContentProjection::Refusal { bytes } if bytes.is_empty() => return Poll::Ready(None),
            ContentProjection::Refusal { bytes } => {
                return Poll::Ready(Some(Ok(Frame::data(mem::take(bytes)))));
            }
            ContentProjection::Lost => return Poll::Ready(None),
        };
        // Before the inner body, because the process may have been stopped since it was last polled.
        if hold.as_mut().is_some_and(|hold| hold.must_end(cx)) {
            content.set(Content::Lost);
            return Poll::Ready(Some(Err(PermitLost.into())));
        }
        let frame = ready!(body.as_mut().poll_frame(cx));
        let is_last = match &frame {
            Some(Ok(frame)) => frame.is_trailers() || body.is_end_stream(),
            Some(Err(_)) | None => true,
        };
        let ended = if is_last { hold.take() } else { None };
        Poll::Ready(frame.map(|frame| match (frame, ended) {
            (Ok(frame), Some(hold)) => Ok(held_until_written(frame, &hold.permits)),
            (frame, _) => frame.map_err(Into::into),
        }))
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Inner { body, .. } => body.is_end_stream(),
            Content::Refusal { bytes } => bytes.is_empty(),
            Content::Lost => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Inner { body, .. } => body.size_hint(),
            Content::Refusal { bytes } => SizeHint::with_exact(bytes.len() as u64),
            Content::Lost => SizeHint::default(),
        }
    }
}

/// The last piece of a body, and its permits, which are given back with it.
struct HeldBytes {
    bytes: Bytes,
    _permits: Arc<Permits>,
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Returns the last frame, which owns the permits if it is long: a server reads all of a body that is one piece, whether or
/// not its client reads.
fn held_until_written(frame: Frame<Bytes>, permits: &Arc<Permits>) -> Frame<Bytes> {
    frame.map_data(|bytes| match bytes.len() > SHORT {
        true => Bytes::from_owner(HeldBytes { bytes, _permits: Arc::clone(permits) }),
        false => bytes,
    })
}
