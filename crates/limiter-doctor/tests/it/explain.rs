//! `explain` says what is stored of a subject, as the limiter itself counts it.

use limiter_core::Key;
use limiter_rig::server::Server;

use crate::{SECRET, TempFile, doctor, limiter, now, run, take};

/// A hash of four limits and the end of a lease, a log, and requests in flight of a policy `api`.
fn plant(server: &Server) {
    let now = now(server);
    let at = |seconds: u64| (now + seconds * 1_000_000).to_string();
    let hash = "limiter:{salice}:api";
    let list = "limiter:{salice}:api:day/sliding-log.86400s";
    for words in [
        &["HSET", hash, "gcra.3600s", &at(1_800), "gcra.3600s:leases", &at(100)][..],
        &["HSET", hash, "hour/fixed-window.3600s", &format!("{} 7", at(3_000))],
        &["HSET", hash, "sliding-counter.3600s", &format!("{} 4 20", at(5_400))],
        &["RPUSH", list, &format!("{} 2 9", at(0))],
        &["RPUSH", list, &format!("{} 4", now - 90_000_000_000), &format!("{} 3", now - 1_000)],
        &["PEXPIRE", hash, "60000"],
        &["PEXPIRE", list, "60000"],
    ] {
        server.command(words).unwrap();
    }
}

/// Returns whether the lines begin so. The times change, so they are cut off.
fn begin_with(printed: &str, expected: &[&str]) -> bool {
    let lines: Vec<_> = printed.lines().collect();
    lines.len() == expected.len()
        && lines.iter().zip(expected).all(|(line, it)| line.starts_with(it))
}

#[tokio::test]
async fn a_subject_prints_in_words() {
    let server = Server::start();
    plant(&server);
    let printed = doctor(&server, &["explain", "alice", "--name", "api"]);
    let lines = [
        "limiter:{salice}:api",
        "  subject  \"alice\" (text)",
        "  policy   api",
        "  expires  in 59.",
        "",
        "gcra.3600s",
        "  50 % of 60 min is used up; all of it is free in 29.",
        "  leases   the latest ends in 9",
        "  stored   \"",
        "",
        "hour/fixed-window.3600s",
        "  7 permits in use; all are free in 49.",
        "  stored   \"",
        "",
        "sliding-counter.3600s",
        "  14 permits in use; all are free in 89.",
        "  stored   \"",
        "",
        "limiter:{salice}:api:day/sliding-log.86400s",
        "  subject  \"alice\" (text)",
        "  policy   api",
        "  expires  in 59.",
        "",
        "day/sliding-log.86400s",
        "  5 permits in use; all are free in 23.9 h",
        "  stored   \"",
    ];
    assert!(printed.code == 0 && begin_with(&printed.out, &lines), "{}", printed.out);
    // Each key means all of them.
    for key in ["limiter:{salice}:api", "limiter:{salice}:api:day/sliding-log.86400s"] {
        let printed = doctor(&server, &["explain", key]);
        assert!(printed.code == 0 && begin_with(&printed.out, &lines), "{}", printed.out);
    }
}

#[tokio::test]
async fn the_limits_of_the_service_count_permits() {
    let server = Server::start();
    plant(&server);
    let file = TempFile::new(
        "explain",
        "
        [redis]
        url = 'redis://127.0.0.1'
        [limits.api]
        limit = '10/h'
        limits = { hour = '100/h by fixed-window', day = '1000/d by sliding-log' }
        [limits.api.tiers.premium]
        api = '20/h'
        hour = '200/h'
        day = '500/d'
        ",
    );
    server.command(&["CONFIG", "RESETSTAT"]).unwrap();
    let printed = doctor(&server, &["explain", "alice", "--name", "api", "--limits", &file.0]);
    // Its keys are known.
    let stats = server.command(&["INFO", "commandstats"]).unwrap();
    assert!(
        !stats.contains("cmdstat_scan:") && stats.contains("cmdstat_hgetall:calls=1,"),
        "{stats}"
    );
    assert_eq!((printed.code, printed.after("limiter:{salice}:api").len()), (0, 2), "{printed:?}");
    for words in [
        "gcra.3600s\n  5 of 10 permits in use, 5 left; all are free in ",
        "hour/fixed-window.3600s\n  7 of 100 permits in use, 93 left; all are free in ",
        "\n  tier premium: 7 of 200 permits in use, 193 left; all are free in ",
        "day/sliding-log.86400s\n  5 of 1000 permits in use, 995 left; all are free in ",
        // The file has no such limit.
        "sliding-counter.3600s\n  14 permits in use; ",
    ] {
        assert!(printed.out.contains(words), "{words}: {}", printed.out);
    }
}

#[tokio::test]
async fn what_no_limiter_writes_is_a_problem() {
    let server = Server::start();
    let plant = |words: &[&str]| server.command(words).unwrap();
    let no_field = "No limit of this version has such a field.";
    for (words, message) in [
        ("HSET limiter:{stext}:api gcra.60s nonsense", "No limiter writes this value."),
        (
            "HSET limiter:{sfar}:api gcra.60s 9999999999000000",
            "further ahead than the limit allows",
        ),
        ("HSET limiter:{sfield}:api gcra 1", no_field),
        ("HSET limiter:{slog}:api sliding-log.60s 1", no_field),
        (
            "HSET limiter:{sends}:api gcra.60s 1700000000000000 gcra.60s:leases x",
            "The end of its leases is a value that no limiter writes",
        ),
        ("SADD limiter:{stype}:api x", "fail with WRONGTYPE"),
        ("SET limiter:{slist}:api:sliding-log.60s x", "fail with WRONGTYPE"),
        (
            "SET limiter:{sold}:api:gcra 1700000000000000",
            "No limiter of this version has such keys.",
        ),
    ] {
        let words: Vec<_> = words.split(' ').collect();
        plant(&words);
        plant(&["PEXPIRE", words[1], "60000"]);
        let printed = doctor(&server, &["explain", words[1]]);
        printed.has(1, ["PROBLEM: ", message]);
        assert_eq!(printed.out.matches("PROBLEM").count(), 1, "{printed:?}");
    }
    // Nothing was repaired.
    assert_eq!(
        server.command(&["HGET", "limiter:{stext}:api", "gcra.60s"]).unwrap(),
        "$8\r\nnonsense"
    );
    for (key, words) in [
        ("limiter:{shash}:api", &["HSET", "gcra.60s", "1700000000000000"][..]),
        ("limiter:{slog}:logs:sliding-log.60s", &["RPUSH", "1700000000000000 1 1"]),
    ] {
        plant(&[&words[..1], &[key], &words[1..]].concat());
        let printed = doctor(&server, &["explain", key]);
        let text = "PROBLEM: The key has no expiry. Only PERSIST, RESTORE or another program";
        printed.has(1, [text]);
    }
}

#[test]
fn a_long_log_is_counted_without_its_entries_that_have_ended() {
    let server = Server::start();
    let now = now(&server);
    for (older, words) in [
        // 3,000 entries of 2 permits, of a log of a minute, the older half of which no longer counts.
        (3_000, "  3002 permits in use; "),
        // 10,000 entries are read, or a few more.
        (30_000, "  at most 40000 permits in use; "),
    ] {
        let key = format!("limiter:{{i{older}}}:api:sliding-log.60s");
        let head = format!("{now} 2 {}", 2 * older);
        let mut elements = vec!["RPUSH".to_owned(), key.clone(), head.clone()];
        for number in 1..older {
            let ago = older - number;
            let at = if number < older / 2 { now - 90_000_000 - ago } else { now - ago };
            elements.push(format!("{at} 2"));
        }
        server.command(&elements.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        server.command(&["PEXPIRE", &key, "60000"]).unwrap();
        let printed = doctor(&server, &["explain", &key]);
        printed.has(0, [words]);
        assert!(printed.out.contains(&format!("  stored   \"{head}\"\n")), "{printed:?}");
    }
    // All logs of a page share the entries that are read.
    let printed = doctor(&server, &["top"]);
    assert!(printed.out.contains("at most 4"), "{printed:?}");
}

#[tokio::test]
async fn a_secret_is_found_by_the_shared_secret_and_not_printed() {
    let server = Server::start();
    let limiter = limiter(&server, "api", "10/h").await;
    take(&limiter, Key::secret("sk-1"), 3).await;
    let url = server.url();
    let explain = ["--url", &url, "explain", "-", "--secret", "--name", "api"];
    let printed = run(&explain, &[("LIMITER_KEY_SECRET", SECRET)], "sk-1\n");
    assert!(printed.out.contains("  30 % of 60 min is used up; "), "{printed:?}");
    assert!(printed.out.contains("subject  a secret: @") && !printed.out.contains("sk-1"));
    let printed = run(&explain, &[("LIMITER_KEY_SECRET", "another shared secret")], "sk-1\n");
    assert!(printed.out.contains("Nothing is stored: no permits are in use."), "{printed:?}");
}
