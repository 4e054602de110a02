//! Runs the program against a server, through each client.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::process::Command;

use axum::{Router, routing::get};
use limiter_tower::{MemoryLimiter, Policy, Quota, RateLimitLayer, key::FixedKey};
use tokio::{net::TcpListener, runtime::Runtime};

/// Starts a server of 300 requests a minute, 4 at once, and returns its address.
fn server(runtime: &Runtime) -> String {
    let quota = Quota::per_minute(300).with_burst(4);
    let limiter = MemoryLimiter::new(Policy::gcra("api", quota));
    let layer = RateLimitLayer::new(limiter, FixedKey::new("all"));
    let app = Router::new().route("/", get(|| async { "hello" })).layer(layer);
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move { axum::serve(listener, app).await });
    format!("http://{address}/")
}

fn assert_none_refused(client: &str) {
    let runtime = Runtime::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_example-outgoing"));
    let output = command.env("URL", server(&runtime)).env("CLIENT", client).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    println!("$ CLIENT={client} cargo run -p example-outgoing\n{text}");
    assert!(output.status.success());
    assert_eq!(text.lines().filter(|line| line.contains(": 200 OK after ")).count(), 12);
    // Eleven at 5/s.
    let last = text.lines().last().and_then(|line| line.split(' ').rev().nth(1)).unwrap();
    assert!(last.parse::<f64>().unwrap() > 1.8, "{text}");
}

#[test]
fn through_hyper_util_no_request_is_refused() {
    assert_none_refused("hyper-util");
}

#[test]
fn through_reqwest_no_request_is_refused() {
    assert_none_refused("reqwest");
}

#[test]
fn an_unknown_client_is_quoted() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_example-outgoing"));
    let output = command.env("CLIENT", "curl").output().unwrap();
    assert!(!output.status.success());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("CLIENT is \"curl\": use hyper-util or reqwest"), "{error}");
}
