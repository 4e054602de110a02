//! Any header fields in the response of a server: a client reads them, and the next request waits or fails in time.

#![no_main]

use std::{convert::Infallible, future::ready, time::Duration};

use http::{HeaderValue, Request, Response, StatusCode, header::HeaderName};
use libfuzzer_sys::fuzz_target;
use limiter_client::ThrottleLayer;
use limiter_core::{Policy, Quota};
use tokio::{runtime::Builder, time::timeout};
use tower::{Layer, Service, ServiceExt, service_fn};

const FIELDS: [&str; 7] = [
    "ratelimit",
    "ratelimit-policy",
    "retry-after",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "date",
];

// The first byte chooses the status, and each line is a field.
fuzz_target!(|bytes: &[u8]| {
    let Some((status, lines)) = bytes.split_first() else { return };
    let lines: Vec<Vec<u8>> = lines.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let status = [StatusCode::OK, StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE]
        [usize::from(status % 3)];
    let service = service_fn(move |_: Request<()>| {
        let mut response = Response::new(());
        *response.status_mut() = status;
        for (name, value) in FIELDS.iter().cycle().zip(&lines) {
            if let Ok(value) = HeaderValue::from_bytes(value) {
                response.headers_mut().append(HeaderName::from_static(name), value);
            }
        }
        ready(Ok::<_, Infallible>(response))
    });
    let layer = ThrottleLayer::new(Policy::gcra("fuzz", Quota::per_second(1_000)));
    let layer = layer.expect("the policy is served").within(Duration::ZERO);
    let mut service = layer.layer(service);
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        for _ in 0..2 {
            let request = Request::builder().uri("http://server.example/").body(());
            let service = service.ready().await.expect("the service is ready");
            let call = service.call(request.expect("a request"));
            // It may fail, because it may not wait.
            drop(timeout(Duration::from_secs(1), call).await.expect("it waits for no longer"));
        }
    });
});
