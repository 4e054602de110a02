//! The body of a response: the inner service's, or an answer in its place.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The body of a response of [`RateLimit`](crate::service::RateLimit).
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
        // Empty once it was read. In a box, because larger bodies make a response too large to be
        // moved in registers: 10 ns a request with axum's (`cargo xtask bench layer`).
        Refusal { bytes: Box<Bytes> },
    }
}

impl<B> ResponseBody<B> {
    pub(crate) const fn inner(body: B) -> Self {
        Self { content: Content::Inner { body } }
    }

    pub(crate) fn answer(bytes: Bytes) -> Self {
        Self { content: Content::Refusal { bytes: Box::new(bytes) } }
    }
}

impl<B: Default> Default for ResponseBody<B> {
    fn default() -> Self {
        Self::inner(B::default())
    }
}

impl<B: Body<Data = Bytes>> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().content.project() {
            ContentProjection::Inner { body } => body.poll_frame(cx),
            ContentProjection::Refusal { bytes } if bytes.is_empty() => Poll::Ready(None),
            ContentProjection::Refusal { bytes } => {
                Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut **bytes)))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Inner { body } => body.is_end_stream(),
            Content::Refusal { bytes } => bytes.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Inner { body } => body.size_hint(),
            Content::Refusal { bytes } => SizeHint::with_exact(bytes.len() as u64),
        }
    }
}
