//! `explain` says what a stored state means, as the limiter itself counts it.

use limiter_core::Key;
use limiter_rig::server::Server;

use crate::{SECRET, doctor, limiter, now, run, take};

#[tokio::test]
async fn a_state_prints_in_words() {
    let server = Server::start();
    let tat = now(&server) + 3_600_000_000;
    let state = format!("{tat} 360000000 7200000000");
    server.command(&["SET", "limiter:{salice}:api:gcra", &state, "PX", "3600500"]).unwrap();
    let printed =
        doctor(&server, &["explain", "alice", "--name", "api", "--quota", "10/h burst 20"]);
    // The times change, so they are cut off.
    let lines: Vec<_> = printed.out.lines().collect();
    for (line, text) in lines.iter().zip([
        "limiter:{salice}:api:gcra",
        "  subject    \"alice\" (text)",
        "  policy     api",
        "  algorithm  gcra",
        "  expires    in ",
        "",
        "gcra: 10 of 20 permits in use, and 10 left. The limit is fresh in ",
        &format!("  stored     \"{state}\""),
        &format!("  TAT        {tat}  the time at which the debt, with permits in leases, is paid off, in "),
        "  increment  360000000         each permit adds 6 min of debt",
        "  reach      7200000000        the largest debt that the quota can leave: 2 h",
    ]) {
        assert!(line.starts_with(text), "{text:?}: {}", printed.out);
    }
}

#[tokio::test]
async fn a_stored_key_has_the_name_of_the_policy_that_a_quota_is_for() {
    let server = Server::start();
    take(&limiter(&server, "api", "10/h").await, Key::from("alice"), 3).await;
    let printed = doctor(&server, &["explain", "limiter:{salice}:api:gcra", "--quota", "10/h"]);
    assert_eq!(printed.code, 0, "{printed:?}");
    assert!(printed.out.contains("3 of 10 permits in use, and 7 left"), "{printed:?}");

    let printed = doctor(&server, &["top", "--quota", "10/h"]);
    assert_eq!(printed.code, 2, "{printed:?}");
    assert!(printed.err.contains("--quota needs --name"), "{printed:?}");
}

#[tokio::test]
async fn what_no_limiter_writes_is_a_problem() {
    let server = Server::start();
    let plant = |words: &[&str]| server.command(words).unwrap();
    let text = "limiter:{stext}:api:gcra";
    plant(&["SET", text, "nonsense", "PX", "60000"]);
    plant(&["SET", "limiter:{sfar}:api:gcra", "9999999999000000 1000000 60000000", "PX", "60000"]);
    plant(&["SADD", "limiter:{stype}:api:gcra", "x"]);
    plant(&["SET", "limiter:{slog}:api:sliding-log.3", "x"]);
    plant(&["SET", "limiter:{slasting}:api:gcra", "1700000000000000 1000000 60000000"]);
    let head = "1700000000000000 1 1 1 1 60000000 60000000";
    plant(&["RPUSH", "limiter:{slasting}:api:sliding-log.3", head]);
    for (key, message) in [
        (text, "No limiter writes this value."),
        ("limiter:{sfar}:api:gcra", "further ahead than its quota allows"),
        ("limiter:{stype}:api:gcra", "fail with WRONGTYPE"),
        ("limiter:{slog}:api:sliding-log.3", "fail with WRONGTYPE"),
        ("limiter:{slasting}:api:gcra", "The key has no expiry. Only PERSIST, RESTORE or another"),
        ("limiter:{slasting}:api:sliding-log.3", "The next admission of the subject sets one;"),
    ] {
        let printed = doctor(&server, &["explain", key]);
        assert_eq!(printed.code, 1, "{printed:?}");
        assert!(printed.out.contains("PROBLEM: ") && printed.out.contains(message), "{printed:?}");
        let printed = doctor(&server, &["explain", key, "--json"]);
        assert_eq!(printed.code, 1, "{printed:?}");
        assert!(printed.out.contains(message), "{printed:?}");
    }
    // Nothing was repaired.
    assert_eq!(server.command(&["GET", text]).unwrap(), "$8\r\nnonsense");
}

#[tokio::test]
async fn a_secret_is_found_by_the_shared_secret_and_not_printed() {
    let server = Server::start();
    let limiter = limiter(&server, "api", "10/h").await;
    take(&limiter, Key::secret("sk-1"), 3).await;
    let url = server.url();
    let explain = ["--url", &url, "explain", "-", "--secret", "--name", "api"];
    let printed = run(&explain, &[("LIMITER_KEY_SECRET", SECRET)], "sk-1\n");
    assert!(printed.out.contains("gcra: 3 permits in use."), "{printed:?}");
    assert!(printed.out.contains("subject    a secret: @") && !printed.out.contains("sk-1"));
    let printed = run(&explain, &[("LIMITER_KEY_SECRET", "another shared secret")], "sk-1\n");
    assert!(printed.out.contains("Nothing is stored: the subject is fresh."), "{printed:?}");
}
