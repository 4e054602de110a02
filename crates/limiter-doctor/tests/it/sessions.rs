//! The sessions in the README print what the command prints, apart from numbers.

use std::{env, fs, time::Duration};

use limiter_redis::RedisInFlight;
use limiter_rig::server::Server;

use crate::{TempFile, limiter, run, subjects::pair, take};

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");

#[tokio::test]
async fn sessions_in_the_readme_are_real() {
    let server = Server::start();
    let limiter = limiter(&server, "api", "10/min").await;
    take(&limiter, "alice", 3).await;
    take(&limiter, "bob", 9).await;
    take(&crate::limiter(&server, "login", "5/min").await, pair(), 1).await;
    // Ids with the same letters each time.
    let uploads = RedisInFlight::builder("uploads", 3).seed(1).deadline(Duration::from_secs(5));
    let uploads = uploads.connect(&server.url()).await.unwrap();
    let _permits = [uploads.enter("alice").await.unwrap(), uploads.enter("alice").await.unwrap()];
    let url = server.url();
    let limits = TempFile::new("sessions", "api = \"10/min\"");
    let written = fs::read_to_string(README).unwrap();
    let mut printed = String::new();
    let mut is_session = false;
    for line in written.lines() {
        if line.starts_with("```") {
            is_session = line == "```console";
        } else if is_session && !line.starts_with('$') {
            // What it printed before.
            continue;
        }
        printed += &format!("{line}\n");
        let command = line.strip_prefix("$ limiter-doctor ").filter(|line| !line.contains('<'));
        if let Some(command) = command {
            // As a shell does with a key in quotation marks.
            let word = |word| match word {
                "limits.toml" => &limits.0,
                word => str::trim_matches(word, '\''),
            };
            let arguments: Vec<&str> = command.split(' ').map(word).collect();
            let out = run(&arguments, &[("REDIS_URL", &url)], "").out;
            printed += &out.replace(&url, "redis://127.0.0.1:6379");
        }
    }
    if env::var_os("LIMITER_WRITE_DOCS").is_some() {
        fs::write(README, &printed).unwrap();
        return;
    }
    let hint = "run this test with LIMITER_WRITE_DOCS=1 to write the sessions anew";
    assert!(comparable(&written) == comparable(&printed), "{README}: {hint}\n{printed}");
}

/// Returns a text without its numbers, and without the lines on clocks and speed.
fn comparable(text: &str) -> String {
    let varies = ["its clock is", "a check takes", "SLOWLOG", "circuit breaker"];
    let lines = text.lines().filter(|line| !varies.iter().any(|words| line.contains(words)));
    let line = |line: &str| {
        let is_kept = |character: &char| !character.is_ascii_digit() && !". ".contains(*character);
        line.replace("Valkey", "Redis").chars().filter(is_kept).chain(['\n']).collect::<String>()
    };
    lines.map(line).collect()
}
