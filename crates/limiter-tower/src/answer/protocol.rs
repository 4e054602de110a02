//! The protocol in which a client expects its response.

use http::{Method, header::CONTENT_TYPE};

use crate::key::Head;

/// The protocol in which a client expects its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Plain HTTP: a refusal has a status code of its own, such as 429.
    Http,
    /// gRPC over HTTP/2: the HTTP status is 200, and `grpc-status` reports the refusal.
    Grpc,
    /// gRPC-Web, binary or text: as [`Grpc`](Self::Grpc), over any version of HTTP.
    GrpcWeb,
}

impl Protocol {
    /// Returns the protocol of a request, by its method and its `Content-Type`.
    ///
    /// A `POST` of `application/grpc`, `application/grpc+proto` or `application/grpc;charset=utf-8` is
    /// [`Grpc`](Self::Grpc), in upper or lower case. The same after `application/grpc-web` or
    /// `application/grpc-web-text` is [`GrpcWeb`](Self::GrpcWeb). All else is [`Http`](Self::Http):
    /// gRPC calls are `POST` requests, and a cache might store the status 200 of any other.
    pub(crate) fn of<'r>(head: impl Into<Head<'r>>) -> Self {
        let head = head.into();
        let content_type = head.headers.get(CONTENT_TYPE);
        let Some(content_type) = content_type.filter(|_| head.method == Method::POST) else {
            return Self::Http;
        };
        let Some(rest) = strip_prefix(content_type.as_bytes(), b"application/grpc") else {
            return Self::Http;
        };
        match strip_prefix(rest, b"-web") {
            Some(rest) if ends_name(strip_prefix(rest, b"-text").unwrap_or(rest)) => Self::GrpcWeb,
            None if ends_name(rest) => Self::Grpc,
            _ => Self::Http,
        }
    }
}

/// Returns what follows `prefix` in `text`; media types are case-insensitive (RFC 9110, section
/// 8.3.1).
fn strip_prefix<'t>(text: &'t [u8], prefix: &[u8]) -> Option<&'t [u8]> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// Returns whether the name of a media type ends before `rest`: at a suffix for the message format,
/// at a parameter, or at the end.
fn ends_name(rest: &[u8]) -> bool {
    matches!(rest.first(), None | Some(b'+' | b';' | b' ' | b'\t'))
}

#[cfg(test)]
mod tests {
    use http::{HeaderValue, Request};

    use super::*;

    fn protocol(method: Method, content_type: Option<&[u8]>) -> Protocol {
        let mut request = Request::new(());
        *request.method_mut() = method;
        if let Some(Ok(content_type)) = content_type.map(HeaderValue::from_bytes) {
            request.headers_mut().insert(CONTENT_TYPE, content_type);
        }
        Protocol::of(&request)
    }

    #[test]
    fn the_content_type_of_a_post_decides_the_protocol() {
        for (content_type, expected) in [
            ("application/grpc", Protocol::Grpc),
            ("application/grpc+proto", Protocol::Grpc),
            ("application/grpc+json", Protocol::Grpc),
            ("application/grpc;charset=utf-8", Protocol::Grpc),
            ("application/grpc ; charset=utf-8", Protocol::Grpc),
            ("Application/GRPC+Proto", Protocol::Grpc),
            ("application/grpc-web", Protocol::GrpcWeb),
            ("application/grpc-web+proto", Protocol::GrpcWeb),
            ("application/grpc-web;charset=utf-8", Protocol::GrpcWeb),
            ("application/grpc-web-text", Protocol::GrpcWeb),
            ("application/grpc-web-text+proto", Protocol::GrpcWeb),
            ("APPLICATION/GRPC-WEB-TEXT", Protocol::GrpcWeb),
            ("", Protocol::Http),
            ("application/grp", Protocol::Http),
            ("application/grpcx", Protocol::Http),
            ("application/grpc-", Protocol::Http),
            ("application/grpc-websocket", Protocol::Http),
            ("application/grpc-web-texts", Protocol::Http),
            ("application/json", Protocol::Http),
            ("text/plain; of=application/grpc", Protocol::Http),
        ] {
            let content_type_of = Some(content_type.as_bytes());
            assert_eq!(protocol(Method::POST, content_type_of), expected, "{content_type:?}");
            assert_eq!(protocol(Method::GET, content_type_of), Protocol::Http, "{content_type:?}");
        }
    }

    #[test]
    fn a_request_without_a_content_type_in_text_is_plain_http() {
        assert_eq!(protocol(Method::POST, None), Protocol::Http);
        assert_eq!(protocol(Method::POST, Some(b"application/grpc\xff")), Protocol::Http);
    }
}
