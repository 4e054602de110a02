//! Fields that are not read.

use std::time::Duration;

use tokio::time::Instant;

use crate::{Fields, Log, client, response, send_all, unlimited};

/// Returns how long the second request has waited after a response with these fields.
async fn wait_after(fields: Fields<'static>) -> Duration {
    let log = Log::default();
    let client = client(&unlimited(), &log, move |_| response(200, fields));
    let start = Instant::now();
    send_all(&client, "a.example", 2).await;
    log.since(start)[1]
}

/// Draft 07 alone had one dictionary.
#[tokio::test(start_paused = true)]
async fn the_dictionary_of_draft_07_is_not_read() {
    let waited = wait_after(&[("ratelimit", "limit=100, remaining=0, reset=30")]).await;
    assert!(waited < Duration::from_secs(1), "{waited:?}");
}

/// Other fields are read nevertheless.
#[tokio::test(start_paused = true)]
async fn a_dictionary_hides_no_other_fields() {
    let waited = wait_after(&[
        ("ratelimit", "limit=100, remaining=50, reset=30"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "20"),
    ])
    .await;
    assert!(waited >= Duration::from_secs(20), "{waited:?}");
}
