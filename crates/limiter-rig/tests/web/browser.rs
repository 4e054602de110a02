//! What a page in a browser reads of a response from another origin.

use std::{ffi::OsString, net::SocketAddr, process::Stdio, time::Duration};

use axum::{Router, response::Html, routing::get};
use http::{HeaderName, header::CONTENT_TYPE};
use limiter_core::{ManualClock, MemoryLimiter, Policy, Quota};
use limiter_rig::server::Folder;
use limiter_tower::{Answers, RateLimitLayer, headers::Headers, key::FixedKey};
use tokio::{net::TcpListener, process::Command, task::AbortHandle, time::timeout};
use tower_http::cors::{Any, CorsLayer};

use crate::binary;

const AT_MOST: Duration = Duration::from_secs(60);

/// Requests the API until it refuses, and writes a line for each response. The request's own header
/// field makes the browser send a preflight first.
const PAGE: &str = r#"<!doctype html><pre id="seen"></pre><script type="module">
const seen = document.getElementById("seen");
const names = ["Retry-After", "RateLimit", "RateLimit-Policy"];
for (let status = 0, count = 0; status !== 429 && count < 5; count++) {
    const response = await fetch("API", {headers: {"x-page": "yes"}, cache: "no-store"});
    status = response.status;
    const fields = names.map(name => response.headers.get(name));
    seen.textContent += [status, ...fields].join(" | ") + "\n";
}
</script>"#;

/// As `PAGE`, with calls of gRPC-Web, whose refusal has the status 200.
const GRPC_WEB_PAGE: &str = r#"<!doctype html><pre id="seen"></pre><script type="module">
const seen = document.getElementById("seen");
const names = ["grpc-status", "grpc-message", "grpc-retry-pushback-ms"];
for (let count = 0; count < 3; count++) {
    const headers = {"x-page": "yes", "content-type": "application/grpc-web+proto"};
    const response = await fetch("API", {method: "POST", headers, body: ""});
    const fields = names.map(name => response.headers.get(name));
    seen.textContent += [response.status, ...fields].join(" | ") + "\n";
}
</script>"#;

#[tokio::test]
async fn a_page_of_another_origin_reads_the_status_of_a_grpc_web_call() {
    let expected = "200 |  |  | \n200 |  |  | \n200 | 8 | rate limit exceeded | 1800000\n";
    let exposed = Headers::default().exposed();
    timeout(AT_MOST, assert_seen(GRPC_WEB_PAGE, &exposed, expected)).await.unwrap();
}

#[tokio::test]
async fn a_page_of_another_origin_reads_when_to_retry() {
    let expected = "200 |  | \"default\";r=1;t=1800 | \"default\";q=2;w=3600\n\
                    200 |  | \"default\";r=0;t=1800 | \"default\";q=2;w=3600\n\
                    429 | 1800 | \"default\";r=0;t=1800 | \"default\";q=2;w=3600\n";
    timeout(AT_MOST, assert_seen(PAGE, &Headers::default().exposed(), expected)).await.unwrap();
}

#[tokio::test]
async fn a_page_of_another_origin_reads_nothing_that_is_not_exposed() {
    let expected = "200 |  |  | \n200 |  |  | \n429 |  |  | \n";
    timeout(AT_MOST, assert_seen(PAGE, &[], expected)).await.unwrap();
}

/// Asserts what this page reads if an API exposes these header fields.
async fn assert_seen(page: &str, exposed: &[HeaderName], expected: &str) {
    let policy = Policy::gcra("default", Quota::per_hour(2));
    // Its clock does not move.
    let limiter = MemoryLimiter::builder(policy).clock(ManualClock::new()).build().unwrap();
    let limits =
        RateLimitLayer::new(limiter.clone(), FixedKey::new("all")).answers(Answers::new().grpc());
    let cors = CorsLayer::new()
        .allow_origin(Any)
        .allow_headers([HeaderName::from_static("x-page"), CONTENT_TYPE])
        .expose_headers(exposed.to_vec());
    // The last layer is the outermost.
    let api = Router::new()
        .route("/", get(async || "hello").post(async || "hello"))
        .layer(limits)
        .layer(cors);
    let (api, api_server) = serve(api).await;
    let page = page.replace("API", &format!("http://{api}/"));
    let page = Router::new().route("/", get(async move || Html(page)));
    let (page, page_server) = serve(page).await;

    let document = browse(page).await;
    let start = "<pre id=\"seen\">";
    let (_, seen) = document.split_once(start).unwrap_or_else(|| panic!("{document}"));
    let (seen, _) = seen.split_once("</pre>").unwrap();
    assert_eq!(seen, expected);
    assert_eq!(limiter.peek("all").used(), 2);
    api_server.abort();
    page_server.abort();
}

async fn serve(app: Router) -> (SocketAddr, AbortHandle) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move { axum::serve(listener, app).await });
    (address, server.abort_handle())
}

/// Returns the page's document once its script has run.
async fn browse(page: SocketAddr) -> String {
    let folder = Folder::create().unwrap();
    let mut profile = OsString::from("--user-data-dir=");
    profile.push(folder.path());
    let output = Command::new(binary("LIMITER_CHROMIUM", &["chromium", "google-chrome"]))
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--disable-quic", "--no-first-run", "--disable-background-networking"])
        .args(["--disable-component-update", "--disable-sync", "--no-proxy-server"])
        .arg(profile)
        // Time does not pass in the page while a request is in flight.
        .args(["--virtual-time-budget=10000", "--dump-dom"])
        .arg(format!("http://{page}/"))
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let document = String::from_utf8(output.stdout).unwrap();
    if !output.status.success() {
        let log = String::from_utf8_lossy(&output.stderr);
        panic!("chromium: {}\n{log}", output.status);
    }
    document
}
