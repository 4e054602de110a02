//! What limiters do when a server refuses, on a server in the process, by a clock that moves when all tasks wait.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper that fails fails its test")]

mod client;
mod denied;
mod full_memory;
mod lists;

use limiter_core::Policy;

/// Returns a policy of the limits in a text, such as `2/min, 20/h`.
fn policy(text: &str) -> Policy {
    let limits = text.split(", ").map(|limit| Policy::parse(limit, limit).unwrap());
    match limits.clone().count() {
        1 => Policy::parse("test", text).unwrap(),
        _ => Policy::all_of("test", limits).unwrap(),
    }
}
