//! The page at `/`.

use axum::{
    http::header::CONTENT_SECURITY_POLICY,
    response::{Html, IntoResponse},
};

/// The page is one file. The browser loads nothing else, and connects to this server only.
const SOURCES: &str = "default-src 'none'; connect-src 'self'; img-src data:; \
                       script-src 'unsafe-inline'; style-src 'unsafe-inline'";

pub(crate) async fn page() -> impl IntoResponse {
    ([(CONTENT_SECURITY_POLICY, SOURCES)], Html(include_str!("page.html")))
}
