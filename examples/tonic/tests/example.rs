//! Runs the server, and its client as another process.

use std::process::Command;

use limiter_rig::program::{self, Program};

const BINARY: &str = env!("CARGO_BIN_EXE_example-tonic");

#[test]
fn the_client_retries_when_the_server_says() {
    let server = Program::start(&mut Command::new(BINARY));
    let line = server.line("cargo run");
    let output = program::shell(&line.trim().replace("cargo run -p example-tonic --", BINARY));

    let refusal = "RESOURCE_EXHAUSTED: rate limit exceeded; retry in ";
    let mut lines = output.lines();
    let mut refusals = 0;
    for call in ["call 1: ", "call 2: ", "call 3: ", "call 4: ", "call 5: "] {
        let mut result = lines.next().unwrap().strip_prefix(call).unwrap();
        if let Some(delay) = result.strip_prefix(refusal) {
            let seconds: f64 = delay.strip_suffix(" s").unwrap().parse().unwrap();
            assert!((0.0..=5.0).contains(&seconds), "{seconds}");
            // One refusal is enough: nobody else calls, so the call is admitted at that time.
            result = lines.next().unwrap().strip_prefix(call).unwrap();
            refusals += 1;
        }
        assert_eq!(result, "SERVING");
    }
    assert_eq!(lines.next(), None);
    // On a slow machine, a permit may return before it is needed.
    assert!((1..=2).contains(&refusals), "{refusals}");
}

#[test]
fn plain_http_is_refused_with_429_and_grpc_with_its_own_status() {
    let server = Program::start(&mut Command::new(BINARY));
    let path = "/grpc.health.v1.Health/Check";
    let arguments = ["--http2-prior-knowledge", "-X", "POST"];
    // Bounded loops, because a permit returns every 5 seconds.
    let refused = (0..20).map(|_| server.curl(&arguments, path)).find(|found| found.status == 429);
    let limit = refused.as_ref().and_then(|response| response.field("ratelimit-policy"));
    assert_eq!(limit, Some("\"default\";q=12;w=60;limiter-burst=3"));
    // A gRPC client sends this field, and receives a status of gRPC.
    let arguments = [&arguments[..], &["-H", "content-type: application/grpc"]].concat();
    let mut responses = (0..20).map(|_| server.curl(&arguments, path));
    let refused = responses.find(|found| found.field("grpc-status") == Some("8")).unwrap();
    assert_eq!(refused.status, 200);
    let delay: u64 = refused.field("grpc-retry-pushback-ms").unwrap().parse().unwrap();
    assert!((1..=5_000).contains(&delay), "{delay}");
}
